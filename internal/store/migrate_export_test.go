package store

import (
	"context"
	"fmt"
	"testing/fstest"
)

// PendingWithOneMore returns what [DB.Pending] returns to the program that has the migrations
// that were always required, and one addition. It also returns the addition's name.
func PendingWithOneMore(ctx context.Context, db *DB) (names []string, added string, err error) {
	all, err := readMigrations(migrations)
	if err != nil {
		return nil, "", err
	}
	files := fstest.MapFS{}
	for _, m := range all[:lastRequired] {
		files["migrations/"+m.name+".sql"] = &fstest.MapFile{Data: []byte(m.text)}
	}
	added = fmt.Sprintf("%04d_more", lastRequired+1)
	files["migrations/"+added+".sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE more (n BIGINT)")}
	names, err = pending(ctx, db.Reader, files)
	return names, added, err
}
