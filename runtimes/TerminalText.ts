/** What strangers have written, as it is shown on a terminal. */

/** Text from anybody, within a line. */
export const oneLine = (text: string): string => visible(text.replaceAll("\n", " "))

/** What a terminal would obey, or what turns the writing round, as an escape that JSON knows too. */
export const visible = (text: string): string =>
  text.replace(
    /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )
