// Package a2e is the A2E Subagents Capability on the wire: its fifteen messages, one more to extend deadlines, their data models,
// enums and defaults, and the codec that validates them. It imports the standard library and
// [actor], whose Kinds are the wire codes of its errors.
//
// # Requests
//
// [Decode] reads one request. What it returns is valid: required fields are there, numbers are in
// range, enum values are known, and the defaults of the specification are filled in. What it refuses
// comes back as an *[actor.Error]:
//
//	parse_error       not one JSON object in valid UTF-8, or nested deeper than MaxDepth
//	invalid_message   the type is unknown, or belongs to an answer
//	schema_violation  a field is missing, of the wrong type or out of range; Field is its path
//	too_large         the agent's configuration is larger than MaxConfigBytes
//
// Keys match by case. Unknown keys are ignored everywhere, and of a key that comes twice the last one
// counts. A null in an optional field means that the field is absent; in a required field it is a
// violation, except in a message's content, which may be any JSON.
//
// # Answers
//
// A request with an id is answered with an envelope, see [Answer]; a request without one is answered
// bare, as in the examples of the specification. A request that fails is answered with [NewError].
// [DecodeEnvelope] recovers the envelope of a request that Decode refused, so that the error can name
// the request it belongs to.
//
// # Bytes
//
// [Encode] writes fields in the order of the specification, escapes nothing that JSON does not
// require, and writes each message as one line. Free-form values keep their bytes; only those with
// line breaks in them are compacted. The keys of a metadata object are written in sorted order.
package a2e
