/**
 * Claims as in `0002_jobs`, in a number of statements that does not rise with the groups: one walks along the groups of an
 * arc, one locks those with room, and one counts their leases again, for it sees what others committed until they let go.
 */

const indexesOnly =
  "set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off " +
  "set enable_mergejoin = off"

export const statements: ReadonlyArray<string> = [
  `create or replace function mailroom.claim_jobs(
    arc_kinds text[], arc_afters text[], arc_uptos text[], leases_max integer, turns_max integer, groups_max integer,
    cap integer, now_ms bigint, expires_ms bigint, since_ms bigint,
    out kinds text[], out subjects text[], out tenant_ids uuid[], out environments text[], out group_names text[],
    out dues_ms bigint[], out claim_counts integer[], out tokens uuid[],
    out arc integer, out last_group text, out is_round boolean, out looked integer, out passed integer, out next_ms bigint
  ) language plpgsql ${indexesOnly} as $$
    declare
      turn_kinds text[] := '{}';
      turn_groups text[] := '{}';
      caps integer[] := '{}';
      are_held boolean[];
      rooms integer[];
      turns integer := 0;
      following record;
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
        for following in
          with recursive walk (group_name) as (
            (
              select j.group_name from mailroom.job j
              where j.ready and j.kind = arc_kinds[i] and j.group_name > arc_afters[i] and j.at_ms >= since_ms
              order by j.group_name limit 1
            )
            union all
            select next.group_name from walk cross join lateral (
              select j.group_name from mailroom.job j
              where j.ready and j.kind = arc_kinds[i] and j.group_name > walk.group_name and j.at_ms >= since_ms
              order by j.group_name limit 1
            ) next
          )
          select walk.group_name as name, bound.cap as cap, (
            select bound.cap - count(*) from (
              select from mailroom.job j
              where not j.ready and j.token is not null and j.kind = arc_kinds[i] and j.group_name = walk.group_name
                and j.at_ms > now_ms
              limit bound.cap
            ) leased
          ) as room
          from walk cross join lateral (
            select least(claim_jobs.cap, min(t.in_flight_max)) as cap from mailroom.job_throttle t
            where t.kind = arc_kinds[i] and t.group_name = walk.group_name and t.until_ms > now_ms
          ) bound
        loop
          exit when following.name > arc_uptos[i];
          if looked >= groups_max or cardinality(caps) >= turns_max then
            is_round := false;
            exit arcs;
          end if;
          last_group := following.name;
          looked := looked + 1;
          if following.room > 0 then
            turn_kinds := turn_kinds || arc_kinds[i];
            turn_groups := turn_groups || following.name;
            caps := caps || following.cap;
          end if;
        end loop;
      end loop;

      if cardinality(caps) > 0 then
        select array_agg(pg_try_advisory_xact_lock(hashtextextended(w.kind || ' ' || w.group_name, 5311776)) order by w.turn)
        into are_held
        from unnest(turn_kinds, turn_groups) with ordinality w(kind, group_name, turn);

        select array_agg(counted.room order by counted.turn), count(*) filter (where counted.room > 0),
          count(*) filter (where not counted.is_held)
        into rooms, turns, passed
        from (
          select w.turn, w.is_held, case when w.is_held then w.cap - (
            select count(*) from (
              select from mailroom.job j
              where not j.ready and j.token is not null and j.kind = w.kind and j.group_name = w.group_name and j.at_ms > now_ms
              limit w.cap
            ) leased
          )::integer else 0 end as room
          from unnest(turn_kinds, turn_groups, caps, are_held) with ordinality w(kind, group_name, cap, is_held, turn)
        ) counted;
      end if;

      if turns > 0 then
        with best as materialized (
          select w.kind, j.subject, j.nth, w.turn
          from unnest(turn_kinds, turn_groups, rooms) with ordinality w(kind, group_name, room, turn) cross join lateral (
            select first.subject, row_number() over (order by first.at_ms) as nth from (
              select r.subject, r.at_ms from mailroom.job r
              where r.ready and r.kind = w.kind and r.group_name = w.group_name and r.at_ms between since_ms and now_ms
              order by r.at_ms limit least(w.room, leases_max - turns + 1)
            ) first
          ) j
          where w.room > 0
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
  $$`
]
