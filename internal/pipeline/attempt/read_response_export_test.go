package attempt

// Spill is the size up to which a JSON response is checked before it is handed
// on, and MaxHeld that of the comments before a stream's first event.
const (
	Spill   = maxBufferedJSON
	MaxHeld = maxHeld
)
