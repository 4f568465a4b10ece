/** The names of a message by the message, so that they go with it. Its record cannot be asked: PostgreSQL reads no JSON that has `\u0000`. */
export const statements: ReadonlyArray<string> = [`create index submission_message on mailroom.submission (message_id)`]
