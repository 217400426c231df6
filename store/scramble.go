package store

// scramble is a bijection on 32 bits: different counts give different numbers, and neighbours do
// not look like neighbours. It is part of what is stored: ids that were given out under another one
// would come again. Adding, multiplying by an odd number and xor with oneself shifted right can each
// be undone, so their sequence can.
func scramble(x uint32) uint32 {
	x += scrambleOffset
	x ^= x >> 16
	x *= scrambleFactor1
	x ^= x >> 15
	x *= scrambleFactor2
	x ^= x >> 16
	return x
}

const (
	scrambleOffset  = 0x9e3779b9
	scrambleFactor1 = 0x7feb352d
	scrambleFactor2 = 0x846ca68b
)
