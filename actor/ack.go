package actor

import "context"

// An Ack is a durable write under way.
type Ack interface {
	// Wait blocks until the server has stored the write, and gives the stream sequence it got. A
	// failed expectation is the Kind Conflict, a message over the server's limit TooLarge; with any
	// other error it is unknown whether the write has happened or will. Waiting again gives the
	// same answer.
	Wait(ctx context.Context) (seq uint64, err error)
}
