package simulator

import "sync"

// fileStore keeps uploaded files in memory, up to a limit.
type fileStore struct {
	mu    sync.Mutex
	limit int64
}

func (f *fileStore) reset() {}
