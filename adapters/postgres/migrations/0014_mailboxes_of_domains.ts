/** A domain's mailboxes by address, for its page and its count; a tenant may have as many at its other domains. */
export const statements: ReadonlyArray<string> = [`create index mailbox_domain_list on mailroom.mailbox (tenant_id, domain_id, address)`]
