/** The entities of HTML 4, and a few more: how text stands in HTML. */

const latin1 =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest " +
  "Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig " +
  "agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml"
const greek =
  "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho - Sigma Tau Upsilon Phi Chi Psi Omega"
const others =
  "quot 34 amp 38 apos 39 lt 60 gt 62 OElig 338 oelig 339 Scaron 352 scaron 353 Yuml 376 fnof 402 circ 710 tilde 732 ensp 8194 emsp 8195 thinsp 8201 " +
  "zwnj 8204 zwj 8205 lrm 8206 rlm 8207 ndash 8211 mdash 8212 lsquo 8216 rsquo 8217 sbquo 8218 ldquo 8220 rdquo 8221 bdquo 8222 dagger 8224 Dagger 8225 " +
  "bull 8226 hellip 8230 permil 8240 prime 8242 Prime 8243 lsaquo 8249 rsaquo 8250 oline 8254 frasl 8260 euro 8364 image 8465 weierp 8472 real 8476 " +
  "trade 8482 alefsym 8501 larr 8592 uarr 8593 rarr 8594 darr 8595 harr 8596 crarr 8629 lArr 8656 uArr 8657 rArr 8658 dArr 8659 hArr 8660 forall 8704 " +
  "part 8706 exist 8707 empty 8709 nabla 8711 isin 8712 notin 8713 ni 8715 prod 8719 sum 8721 minus 8722 lowast 8727 radic 8730 prop 8733 infin 8734 " +
  "ang 8736 and 8743 or 8744 cap 8745 cup 8746 int 8747 there4 8756 sim 8764 cong 8773 asymp 8776 ne 8800 equiv 8801 le 8804 ge 8805 sub 8834 sup 8835 " +
  "nsub 8836 sube 8838 supe 8839 oplus 8853 otimes 8855 perp 8869 sdot 8901 loz 9674 spades 9824 clubs 9827 hearts 9829 diams 9830 check 10003 " +
  "sigmaf 962 thetasym 977 upsih 978 piv 982 num 35 lpar 40 rpar 41 comma 44 period 46 colon 58 commat 64 lbrack 91 rbrack 93 lowbar 95 NewLine 10 Tab 9"

const entities = new Map<string, string>([
  ...latin1.split(" ").map((name, index) => [name, String.fromCharCode(160 + index)] as const),
  ...greek.split(" ").flatMap((name, index) => [
    [name, String.fromCharCode(913 + index)] as const,
    [name.toLowerCase(), String.fromCharCode(945 + index)] as const
  ]),
  ...Array.from(others.matchAll(/(\w+) (\d+)/g), ([, name, code]) => [name!, String.fromCharCode(Number(code))] as const)
])

/** The text with its entities read, once, and its no-break spaces as spaces. */
export const decodeEntities = (text: string): string =>
  text.includes("&")
    ? text.replace(/&(?:#(\d{1,8})|#x([0-9a-f]{1,7})|([a-z][a-z0-9]{1,9}));?/gi, (whole, decimal?: string, hex?: string, name?: string) =>
        name === undefined ? character(decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal)) : (named(name, whole) ?? whole)
      ).replaceAll("\u00a0", " ")
    : text.replaceAll("\u00a0", " ")

/** Without its semicolon only where HTML 4 allowed that, and most senders mean it. */
const named = (name: string, whole: string): string | undefined =>
  whole.endsWith(";") || /^(?:amp|lt|gt|quot|nbsp|copy|reg)$/.test(name) ? entities.get(name) : undefined

/** Code points 128 to 159 mean those of Windows-1252. */
const character = (code: number): string => {
  if (code >= 128 && code < 160) return windows1252[code - 128]!
  return code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : String.fromCodePoint(code)
}

const windows1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"
