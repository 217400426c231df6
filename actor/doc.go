// Package actor is the ground floor of Troupe: the nouns that every other package shares and the
// contract of a turn. It imports the standard library only.
//
// An actor is a thread (a subagent) or the host of a tree of threads. It has an id, a durable
// ordered inbox and a journal, and it moves in turns:
//
//	decide   a [Machine] takes the waiting envelopes and says what becomes of them
//	record   one [Record] is appended to the journal; this is the commit and the fence
//	send     the recorded effects go out, stage by stage
//	settle   the inbox may forget the envelopes
//
// A crash between any two of them repeats the rest and decides nothing twice: what was recorded is
// only sent again, under the same envelope ids, and receivers know these ids.
package actor
