package simulator

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// readBuckets returns the objects of the folder of buckets whose names begin with a prefix, in
// the order of their names. What cannot be read is not there.
func (s *Simulator) readBuckets(prefix string) (list []*bucketObject) {
	root, err := os.OpenRoot(s.opts.Buckets)
	if err != nil {
		return nil
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(name, prefix) {
			return nil
		}
		if content, err := root.ReadFile(name); err == nil {
			list = append(list, &bucketObject{name: name, content: content, tag: tagOf(content)})
		}
		return nil
	})
	return list
}

// writeBucket stores an object in the folder of buckets. One with another name than a file may
// have is lost.
func (s *Simulator) writeBucket(o *bucketObject) {
	root, err := os.OpenRoot(s.opts.Buckets)
	if err != nil {
		return
	}
	defer root.Close()
	if root.MkdirAll(path.Dir(o.name), 0o700) == nil {
		_ = root.WriteFile(o.name, o.content, 0o600)
	}
}
