package diagnosis

import "syscall"

// disk is a file system.
type disk struct {
	free, total      uint64 // bytes; free for a user who is not root
	freeFiles, files uint64 // inodes; both are zero on file systems that have no limit
	kind             string // empty for those that need no remark
	network          bool
}

// fileSystems are those that need a remark, by the number that statfs(2) names.
// https://man7.org/linux/man-pages/man2/statfs.2.html
var fileSystems = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p", 0x00c36400: "Ceph",
	0x5346414f: "AFS", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x01021994: "tmpfs",
}

func diskOf(path string) (d disk, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return d, err
	}
	size := uint64(st.Bsize)
	d = disk{free: st.Bavail * size, total: st.Blocks * size, freeFiles: st.Ffree, files: st.Files, kind: fileSystems[uint32(st.Type)]}
	d.network = d.kind != "" && d.kind != "tmpfs"
	return d, nil
}
