"""Checks that an operation can be executed: every field has the right type and is in its range.

A wrong value must be refused here, with a sentence for its sender: inside the transaction it would fail all the
operations that commit together with it.
"""

from __future__ import annotations

from typing import Any

from sqew import operations as ops
from sqew.core.fields import (
    Check,
    advance,
    any_text,
    batch_limit,
    batch_of,
    busy,
    changes,
    claims,
    columns,
    delivery_outcome,
    details,
    digest,
    extension,
    extras,
    finished,
    fired,
    flag,
    id_,
    ids,
    label,
    lane,
    limit,
    messages,
    ms,
    names,
    notice,
    one_of,
    or_none,
    parts,
    pattern,
    policy,
    position,
    published,
    queue,
    ref,
    release,
    schedule,
    scopes,
    signing_key,
    staged,
    target,
    text,
    texts,
)
from sqew.errors import BadValue
from sqew.model import DeliveryState, Form, Outcome, Protocol, ScheduleStatus, State, SubscriptionState, TargetKind
from sqew.rules.limits import Limits
from sqew.rules.messages import check_new_message
from sqew.rules.names import check_new_queue_name
from sqew.rules.policies import check_queue_policy
from sqew.rules.values import shown

_FIELDS: dict[type[ops.Operation[Any]], tuple[tuple[str, Check], ...]] = {
    ops.CreateQueue: (
        ("name", queue),
        ("policy", policy),
        ("exist_ok", flag),
        ("dead_letters", or_none(policy)),
        ("extras", extras),
        ("new", flag),
        ("apart_from", or_none(queue)),
        ("assumed", names),
        ("any_name", flag),
    ),
    ops.UpdateQueue: (("name", queue), ("changes", changes), ("extras", extras), ("dead_letters", or_none(policy))),
    ops.DeleteQueue: (("name", queue),),
    ops.GetQueue: (("name", queue),),
    ops.ListQueues: (("prefix", any_text), ("after", any_text), ("limit", or_none(position))),
    ops.ListDeadLetterSources: (("queue", queue), ("after", any_text), ("limit", limit)),
    ops.CreateKey: (
        ("queue", queue),
        ("id", text),
        ("digest", digest),
        ("scopes", scopes),
        ("label", label),
        ("secret", or_none(text)),
    ),
    ops.ListKeys: (("queue", or_none(queue)),),
    ops.DeleteKey: (("queue", queue), ("id", any_text)),
    ops.ReadKeys: (("known_version", position),),
    ops.Send: (
        ("queue", queue),
        ("messages", messages),
        ("keyed", flag),
        ("sync_commit", or_none(flag)),
        ("apart", flag),
        ("is_job", flag),
    ),
    ops.Stage: (
        ("queue", queue),
        ("writer", text),
        ("epoch", position),
        ("part", text),
        ("messages", staged),
        ("offset", or_none(position)),
    ),
    ops.Promote: (("queue", queue), ("writer", text), ("epoch", position), ("parts", parts)),
    ops.StepPromotion: (("queue", queue), ("writer", text), ("epoch", position)),
    ops.FinishPromotion: (),
    ops.NextPromotion: (),
    ops.AbortStaging: (("queue", queue), ("writer", text), ("epoch", position)),
    ops.GetWriter: (("queue", queue), ("name", any_text)),
    ops.ListWriters: (("queue", queue), ("after", any_text), ("limit", limit)),
    ops.Receive: (
        ("queue", queue),
        ("limit", batch_limit),
        ("lane", or_none(lane)),
        ("lease_ms", or_none(ms)),
        ("by", or_none(text)),
        ("finish", flag),
        ("attempt_id", or_none(text)),
    ),
    ops.Ack: (("queue", or_none(queue)), ("refs", batch_of(ref)), ("in_time", flag)),
    ops.Nack: (("queue", or_none(queue)), ("releases", batch_of(release)), ("in_time", flag)),
    ops.Extend: (
        ("queue", or_none(queue)),
        ("extensions", batch_of(extension)),
        ("in_time", flag),
        ("most_ms", or_none(ms)),
    ),
    ops.Remove: (("queue", queue), ("ids", ids)),
    ops.Purge: (
        ("queue", queue),
        ("up_to", position),
        ("limit", limit),
        ("keys_below", position),
        ("after_key", any_text),
    ),
    ops.Peek: (("queue", queue), ("limit", limit), ("lane", or_none(lane))),
    ops.ListRecent: (("limit", batch_limit),),
    ops.Get: (("queue", or_none(queue)), ("id", id_)),
    ops.LastId: (),
    ops.ReadSalt: (),
    ops.Scan: (("queue", queue), ("after", position), ("up_to", position), ("limit", limit)),
    ops.ReadBounds: (("queue", queue), ("archive", flag)),
    ops.ReadColumns: (
        ("queue", queue),
        ("after", position),
        ("up_to", position),
        ("limit", limit),
        ("columns", columns),
        ("archive", flag),
        ("lane", or_none(lane)),
        ("state", or_none(one_of(State))),
    ),
    ops.Measure: (("queue", queue),),
    ops.Ages: (("queue", queue),),
    ops.NextDue: (("queue", queue), ("lane", or_none(lane))),
    ops.ListDead: (("queue", queue), ("limit", limit), ("after", position)),
    ops.RequeueDead: (
        ("queue", queue),
        ("ids", or_none(ids)),
        ("limit", limit),
        ("unspent", flag),
        ("after", position),
    ),
    ops.PurgeDead: (("queue", queue), ("ids", or_none(ids)), ("limit", limit)),
    ops.Redrive: (
        ("dead_letter", queue),
        ("to", or_none(queue)),
        ("limit", limit),
        ("until", or_none(position)),
        ("after", position),
    ),
    ops.StartMove: (
        ("id", text),
        ("source", queue),
        ("destination", or_none(queue)),
        ("per_second", or_none(limit)),
        ("to_move", position),
    ),
    ops.ListMoves: (("source", queue), ("limit", limit)),
    ops.CancelMove: (("id", any_text),),
    ops.NextMove: (),
    ops.StepMove: (("limit", limit),),
    ops.ListArchive: (
        ("queue", queue),
        ("limit", limit),
        ("after", position),
        ("outcome", or_none(one_of(Outcome))),
    ),
    ops.DeleteArchived: (("queue", queue), ("finished", batch_of(finished))),
    ops.OpenConsumer: (("queue", queue), ("consumer", text), ("owner", text), ("hold_ms", ms)),
    ops.RenewConsumer: (
        ("queue", queue),
        ("consumer", any_text),
        ("epoch", position),
        ("hold_ms", or_none(ms)),
        ("lease_ms", ms),
    ),
    ops.FinishClaims: (
        ("queue", queue),
        ("consumer", any_text),
        ("epoch", position),
        ("up_to", position),
        ("limit", limit),
    ),
    ops.GrowClaim: (
        ("queue", queue),
        ("consumer", any_text),
        ("epoch", position),
        ("number", id_),
        ("chunk", position),
        ("limit", batch_limit),
        ("lease_ms", ms),
    ),
    ops.SealClaim: (
        ("queue", queue),
        ("consumer", any_text),
        ("epoch", position),
        ("number", id_),
        ("lease_ms", ms),
    ),
    ops.ReadClaim: (("queue", queue), ("consumer", any_text), ("number", position), ("chunk", position)),
    ops.ReadClaimColumns: (("queue", queue), ("consumer", any_text), ("number", position), ("chunk", position)),
    ops.ListConsumers: (("queue", queue), ("after", any_text), ("limit", limit)),
    ops.CloseConsumer: (("queue", queue), ("consumer", any_text), ("force", flag)),
    ops.GiveBackClaims: (("queue", queue), ("consumer", any_text), ("limit", limit)),
    ops.Sweep: (("limit", limit),),
    ops.SweepDue: (),
    ops.ClockIsSlow: (),
    ops.RecordActivity: (),
    ops.ReadActivity: (("queue", queue),),
    ops.Survey: (),
    ops.Subscribe: (
        ("pattern", pattern),
        ("protocol", one_of(Protocol)),
        ("target", target),
        ("form", one_of(Form)),
        ("uuid", any_text),
        ("details", details),
        ("confirmed", flag),
        ("notice", or_none(notice)),
        ("exist_ok", flag),
    ),
    ops.GetSubscription: (("uuid", any_text),),
    ops.FindSubscription: (("pattern", any_text), ("target", any_text)),
    ops.UpdateSubscription: (
        ("uuid", any_text),
        ("form", or_none(one_of(Form))),
        ("details", or_none(details)),
        ("state", or_none(one_of(SubscriptionState))),
        ("notice", or_none(notice)),
    ),
    ops.CreateTopic: (("name", pattern), ("attributes", texts), ("tags", texts)),
    ops.GetTopic: (("name", any_text),),
    ops.ListTopics: (("prefix", any_text), ("after", any_text), ("limit", limit)),
    ops.UpdateTopic: (
        ("name", any_text),
        ("attributes", texts),
        ("tags", or_none(texts)),
        ("form", or_none(one_of(Form))),
    ),
    ops.DeleteTopic: (("name", any_text),),
    ops.CountSubscriptions: (("topic", any_text),),
    ops.Unsubscribe: (("id", id_),),
    ops.ListSubscriptions: (
        ("pattern", or_none(any_text)),
        ("queue", or_none(queue)),
        ("after", position),
        ("limit", limit),
    ),
    ops.Publish: (("events", published), ("to_topics", flag)),
    ops.ClaimDeliveries: (
        ("limit", limit),
        ("per_subscription", limit),
        ("lease_ms", ms),
        ("busy", busy),
        ("cursor", position),
        ("shared", or_none(position)),
    ),
    ops.CountDeliveries: (),
    ops.NextDelivery: (),
    ops.RenewDeliveries: (("claims", claims), ("lease_ms", ms)),
    ops.SettleDeliveries: (("outcomes", batch_of(delivery_outcome)),),
    ops.ListDeliveries: (
        ("state", or_none(one_of(DeliveryState))),
        ("subscription_id", or_none(id_)),
        ("after", position),
        ("limit", limit),
    ),
    ops.GetDelivery: (("id", id_),),
    ops.RetryDeliveries: (
        ("ids", or_none(ids)),
        ("subscription_id", or_none(id_)),
        ("limit", limit),
        ("after", position),
    ),
    ops.DropDeliveries: (("ids", or_none(ids)), ("subscription_id", or_none(id_)), ("limit", limit)),
    ops.ReadSigningKeys: (),
    ops.AddSigningKey: (("key", signing_key), ("instead_of", or_none(text))),
    ops.SaveSchedule: (("schedule", schedule), ("expected", or_none(position))),
    ops.GetSchedule: (("name", any_text),),
    ops.ListSchedules: (
        ("status", or_none(one_of(ScheduleStatus))),
        ("target_kind", or_none(one_of(TargetKind))),
        ("prefix", any_text),
        ("after", any_text),
        ("limit", limit),
    ),
    ops.DeleteSchedule: (("name", any_text),),
    ops.FindDueSchedules: (("limit", limit),),
    ops.FireSchedule: (
        ("name", any_text),
        ("version", position),
        ("events", fired),
        ("advance", or_none(advance)),
    ),
    ops.FailSchedule: (("name", any_text), ("version", position), ("error", any_text), ("retry_at", position)),
}


def check_operation(operation: ops.Operation[Any], limits: Limits) -> None:
    """Raise `BadValue` or a like error unless a store can execute this operation."""
    if type(operation) is ops.Send and operation.is_job is True and limits.jobs is not None:
        limits = limits.jobs
    if type(operation) is ops.Send and type(operation.messages) is tuple and len(operation.messages) == 1:
        # The most frequent of all, without the detour through the table: 1.3 instead of 2.0 µs.
        queue("queue", operation.queue, limits)
        check_new_message(operation.messages[0], limits)
        return
    fields = _FIELDS.get(type(operation))
    if fields is None:
        raise BadValue(f"{shown(operation)} is not an operation. Use one of sqew.operations.")
    for name, check in fields:
        check(name, getattr(operation, name), limits)
    if type(operation) is ops.CreateQueue:
        if not operation.any_name:
            check_new_queue_name(operation.name)
        check_queue_policy(operation.name, operation.policy)
