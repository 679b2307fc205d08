package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"modelgate/internal/base/oserr"
	"modelgate/internal/records/ledger"
)

// LockFolder makes sure that no gateway uses a data folder. Until unlock is called, a gateway
// that starts on it has another name. A folder that does not exist is used by none.
func LockFolder(data string) (unlock func(), err error) {
	used, err := ledger.InUse(LedgerDir(data))
	if err != nil {
		return nil, fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	inUse := fmt.Errorf("a gateway uses the data folder %s; stop it first", data)
	if used {
		return nil, inUse
	}
	f, err := os.OpenFile(filepath.Join(data, nodeFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	locked, err := lockFile(f)
	if err == nil && !locked {
		err = inUse
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
