// Package dialecttest is the suite that every codec of a dialect passes.
//
// It promises that what passes keeps conversations whole: made-up ones come back
// as they were, a stream decodes to the same answer however it is cut and whether
// whole or streamed, and no bytes make a codec panic. What a wire protocol looks
// like is left to the dialects' own tests.
package dialecttest
