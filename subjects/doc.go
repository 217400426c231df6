// Package subjects spells every subject, stream name, bucket name and key of Troupe, and reads them
// back. No other package does either.
//
// A [Names] is one namespace. Its builders take names as they are and encode them ([EncodeToken]),
// so that an agent called "a.b >" is one safe token in a subject and in a key alike. A builder
// never fails and costs one allocation. Each has an inverse, Parse…, which accepts exactly what the
// builder makes of valid arguments: a subject that parses is spelled as the builder spells it, and
// two different things never share a subject.
//
// A parser refuses an actor's id that [ValidID] refuses. Builders do not check: an id is checked
// where it enters the system. Every error here is an [actor.Error] of the kind schema_violation,
// except those of [Names.ReplyAllowed], which may also be unauthorized.
//
// The keys of the registry, the leases, the members, the requests and the idempotency bucket stand here. Those of
// the other buckets are one name each: [EncodeToken] of it is the key.
package subjects
