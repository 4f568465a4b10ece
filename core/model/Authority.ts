/** Where a server is, in one text: in a URL, in a log line, in an error. */

/** A host beside its port, as URLs have them: an IPv6 address in brackets (RFC 3986, 3.2.2), or its last group would pass for the port. */
export const authority = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`
