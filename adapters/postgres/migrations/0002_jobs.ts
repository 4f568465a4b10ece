/**
 * What is to be looked at. The tables are unlogged: what they hold follows from the truth, so a commit pays no write-ahead
 * log for it, and a claim or a completion waits for no disk. A crash of the server, or a failover, empties them all, and
 * the row of `job_epoch` with them; a new row is a new epoch, for which everything due is offered again.
 *
 * A job is either ready, or waits until `at_ms`: for its due time, or under a lease for the lease's end. The two kinds of
 * rows have indexes of their own, so a claim steps from group to group over what is ready only.
 */

/** The tables grow from nothing to millions of rows within minutes, while a plan made for few lives on in its connection. */
const indexesOnly =
  "set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off " +
  "set enable_mergejoin = off"

export const statements: ReadonlyArray<string> = [
  // due_ms: of the job. at_ms: until when it waits, or since when it is ready. token: of the last claim, good until the
  // next one. beside_ms: due time of what was offered while somebody has the token.
  `create unlogged table mailroom.job (
    kind text collate "C" not null, subject text collate "C" not null, tenant_id uuid not null, environment text not null,
    group_name text collate "C" not null, due_ms bigint not null, ready boolean not null, at_ms bigint not null, token uuid,
    claims integer not null, beside_ms bigint, primary key (kind, subject)
  ) with (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.5, autovacuum_analyze_threshold = 10000
  )`,
  `create index job_ready on mailroom.job (kind, group_name, at_ms) where ready`,
  `create index job_waiting on mailroom.job (kind, at_ms) where not ready`,
  `create index job_leased on mailroom.job (kind, group_name, at_ms) where not ready and token is not null`,
  `create unlogged table mailroom.job_throttle (
    kind text collate "C" not null, group_name text collate "C" not null, in_flight_max integer not null,
    until_ms bigint not null, primary key (kind, group_name)
  )`,
  `create index job_throttle_until on mailroom.job_throttle (until_ms)`,

  `create unlogged table mailroom.job_epoch (
    is_row boolean primary key default true check (is_row), id uuid not null default gen_random_uuid()
  )`,
  `create function mailroom.end_job_epoch() returns trigger language plpgsql as $$
    begin
      delete from mailroom.job_epoch;
      return null;
    end
  $$`,
  `create trigger end_job_epoch after truncate on mailroom.job
    for each statement execute function mailroom.end_job_epoch()`,

  // Goes along a part of the ring of groups, and claims from those with room. What the ring is, and where this part of it
  // begins, the caller says: arcs of kinds, each from behind one group up to and with another (null: to the kind's last).
  // The statements within see what others committed before each: so leases are counted after the group's lock is held, and
  // the cap is kept over all claimers. Whoever does not get the lock passes on to the next group. since_ms: what has been
  // ready, or due, for longer is left alone; its index entries are passed without a look at their rows, which may be dead.
  `create function mailroom.claim_jobs(
    arc_kinds text[], arc_afters text[], arc_uptos text[], leases_max integer, turns_max integer, groups_max integer,
    cap integer, now_ms bigint, expires_ms bigint, since_ms bigint,
    out kinds text[], out subjects text[], out tenant_ids uuid[], out environments text[], out group_names text[],
    out dues_ms bigint[], out claim_counts integer[], out tokens uuid[],
    out arc integer, out last_group text, out is_round boolean, out looked integer, out passed integer, out next_ms bigint
  ) language plpgsql ${indexesOnly} as $$
    declare
      turn_kinds text[] := '{}';
      turn_groups text[] := '{}';
      rooms integer[] := '{}';
      found_group text;
      group_cap integer;
      room integer;
      promoted integer;
    begin
      is_round := true;
      looked := 0;
      passed := 0;

      update mailroom.job j set ready = true
      from (select distinct k from unnest(arc_kinds) k) of_kind cross join lateral (
        select w.kind, w.subject from mailroom.job w where not w.ready and w.kind = of_kind.k and w.at_ms between since_ms and now_ms
        order by w.at_ms limit 250 for update skip locked
      ) due
      where j.kind = due.kind and j.subject = due.subject;
      get diagnostics promoted = row_count;

      <<arcs>>
      for i in 1 .. coalesce(cardinality(arc_kinds), 0) loop
        arc := i;
        last_group := arc_afters[i];
        loop
          select j.group_name into found_group from mailroom.job j
          where j.ready and j.kind = arc_kinds[i] and j.group_name > last_group and j.at_ms >= since_ms
          order by j.group_name limit 1;
          exit when found_group is null or found_group > arc_uptos[i];
          if looked >= groups_max or cardinality(rooms) >= turns_max then
            is_round := false;
            exit arcs;
          end if;
          last_group := found_group;
          looked := looked + 1;
          select least(cap, min(t.in_flight_max)) into group_cap from mailroom.job_throttle t
          where t.kind = arc_kinds[i] and t.group_name = found_group and t.until_ms > now_ms;
          for attempt in 1 .. 2 loop
            select group_cap - count(*) into room from (
              select from mailroom.job j
              where not j.ready and j.token is not null and j.kind = arc_kinds[i] and j.group_name = found_group
                and j.at_ms > now_ms
              limit group_cap
            ) leased;
            exit when room <= 0 or attempt = 2;
            if not pg_try_advisory_xact_lock(hashtextextended(arc_kinds[i] || ' ' || found_group, 5311776)) then
              passed := passed + 1;
              room := null;
              exit;
            end if;
          end loop;
          if room > 0 then
            turn_kinds := turn_kinds || arc_kinds[i];
            turn_groups := turn_groups || found_group;
            rooms := rooms || room;
          end if;
        end loop;
      end loop;

      if cardinality(rooms) > 0 then
        with best as materialized (
          select w.kind, j.subject, j.nth, w.turn
          from unnest(turn_kinds, turn_groups, rooms) with ordinality w(kind, group_name, room, turn) cross join lateral (
            select first.subject, row_number() over (order by first.at_ms) as nth from (
              select r.subject, r.at_ms from mailroom.job r
              where r.ready and r.kind = w.kind and r.group_name = w.group_name and r.at_ms between since_ms and now_ms
              order by r.at_ms limit least(w.room, leases_max - cardinality(rooms) + 1)
            ) first
          ) j
          order by j.nth, w.turn limit leases_max
        ), held as materialized (
          select j.kind, j.subject, best.nth, best.turn from best
          join mailroom.job j on j.kind = best.kind and j.subject = best.subject
          where j.ready order by j.kind, j.subject for update of j skip locked
        ), taken as (
          update mailroom.job j
          set ready = false, at_ms = expires_ms, token = gen_random_uuid(), claims = j.claims + 1, beside_ms = null
          from held where j.kind = held.kind and j.subject = held.subject
          returning j.*, held.nth, held.turn
        )
        select array_agg(t.kind), array_agg(t.subject), array_agg(t.tenant_id), array_agg(t.environment),
          array_agg(t.group_name), array_agg(t.due_ms), array_agg(t.claims), array_agg(t.token)
        into kinds, subjects, tenant_ids, environments, group_names, dues_ms, claim_counts, tokens
        from (select * from taken order by nth, turn) t;
      end if;
      next_ms := case when promoted < 250 then mailroom.next_job_ms(arc_kinds, now_ms) else now_ms end;
    end
  $$`,

  // Each gives the places, in the arrays, of the leases that were not lost. Rows are locked in the order of their key.
  `create function mailroom.complete_jobs(of_kinds text[], of_subjects text[], of_tokens text[], nows_ms bigint[])
  returns table (place bigint, is_again boolean)
  language plpgsql ${indexesOnly} as $$ begin return query
    with held as materialized (
      select l.n, j.kind, j.subject, j.beside_ms, l.now_ms
      from unnest(of_kinds, of_subjects, of_tokens, nows_ms) with ordinality l(kind, subject, token, now_ms, n)
      join mailroom.job j on j.kind = l.kind and j.subject = l.subject and j.token::text = l.token
      order by j.kind, j.subject for update of j
    ), gone as (
      delete from mailroom.job j using held
      where j.kind = held.kind and j.subject = held.subject and held.beside_ms is null returning held.n
    ), again as (
      update mailroom.job j
      set due_ms = held.beside_ms, at_ms = held.beside_ms, ready = held.beside_ms <= held.now_ms, token = null, claims = 0,
        beside_ms = null
      from held where j.kind = held.kind and j.subject = held.subject and held.beside_ms is not null returning held.n
    )
    select n, false from gone union all select n, true from again;
  end $$`,
  `create function mailroom.extend_jobs(of_kinds text[], of_subjects text[], of_tokens text[], ends_ms bigint[])
  returns table (place bigint)
  language plpgsql ${indexesOnly} as $$ begin return query
    with held as materialized (
      select l.n, j.kind, j.subject, l.end_ms
      from unnest(of_kinds, of_subjects, of_tokens, ends_ms) with ordinality l(kind, subject, token, end_ms, n)
      join mailroom.job j on j.kind = l.kind and j.subject = l.subject and j.token::text = l.token
      order by j.kind, j.subject for update of j
    )
    update mailroom.job j set ready = false, at_ms = held.end_ms from held
    where j.kind = held.kind and j.subject = held.subject returning held.n;
  end $$`,
  // before_ms: not to be due before; null leaves the due time alone. What was offered meanwhile may ask for it sooner.
  `create function mailroom.release_jobs(
    of_kinds text[], of_subjects text[], of_tokens text[], befores_ms bigint[], nows_ms bigint[]
  ) returns table (place bigint)
  language plpgsql ${indexesOnly} as $$ begin return query
    with held as materialized (
      select l.n, j.kind, j.subject, l.now_ms,
        case when l.before_ms is null then j.due_ms else least(j.beside_ms, greatest(j.due_ms, l.before_ms)) end as new_ms
      from unnest(of_kinds, of_subjects, of_tokens, befores_ms, nows_ms) with ordinality
        l(kind, subject, token, before_ms, now_ms, n)
      join mailroom.job j on j.kind = l.kind and j.subject = l.subject and j.token::text = l.token
      order by j.kind, j.subject for update of j
    )
    update mailroom.job j
    set due_ms = held.new_ms, at_ms = held.new_ms, ready = held.new_ms <= held.now_ms, token = null, claims = j.claims - 1,
      beside_ms = null
    from held where j.kind = held.kind and j.subject = held.subject returning held.n;
  end $$`,
  `create function mailroom.has_ready_job(of_kinds text[], since_ms bigint, now_ms bigint) returns boolean stable
  language plpgsql ${indexesOnly} as $$ begin
    return exists (
      select from unnest(of_kinds) k
      where exists (select from mailroom.job j where not j.ready and j.kind = k and j.at_ms between since_ms and now_ms offset 0)
        or exists (select from mailroom.job j where j.ready and j.kind = k and j.at_ms >= since_ms offset 0)
    );
  end $$`,
  // When the next job becomes ready by the mere passing of time.
  `create function mailroom.next_job_ms(of_kinds text[], now_ms bigint) returns bigint stable
  language plpgsql ${indexesOnly} as $$ begin
    return (
      select min(first.at_ms) from unnest(of_kinds) k cross join lateral (
        select j.at_ms from mailroom.job j where not j.ready and j.kind = k and j.at_ms > now_ms order by j.at_ms limit 1
      ) first
    );
  end $$`
]
