package settings

import "errors"

// Files configures the files that clients upload.
type Files struct {
	WorkspaceQuota Size   `json:"workspace_quota,omitempty" doc:"Bytes of all files of a workspace; default 10 GB"`
	MaxSize        Size   `json:"max_size,omitempty" doc:"Bytes of one file; default 512 MB"`
	CopyLimit      Size   `json:"copy_limit,omitempty" doc:"Bytes of a file that is copied to another provider; default 100 MB"`
	KeepBatchDays  int    `json:"keep_batch_days,omitempty" minimum:"0" maximum:"3650" doc:"Age limit of files of batches that say nothing else; default 30"`
	KeepDeleted    int    `json:"keep_deleted_days,omitempty" minimum:"0" maximum:"3650" doc:"Days for which what deleted workspaces have is kept; default 30"`
	UploadsAtOnce  int    `json:"uploads_at_once,omitempty" minimum:"0" maximum:"10000" doc:"Files that a node stores in a bucket at a time; default 16"`
	Unrecorded     string `json:"unrecorded,omitempty" enum:"refuse,pass" doc:"What happens to ids at managed providers that this gateway has no record of; default refuse"`
}

// Batches configures the batches that the gateway runs itself.
type Batches struct {
	MaxLines    int    `json:"max_lines,omitempty" minimum:"0" maximum:"1000000" doc:"Lines of a batch; default 50000"`
	MaxSize     Size   `json:"max_size,omitempty" doc:"Bytes of a file of lines; default 200 MB"`
	Concurrency int    `json:"concurrency,omitempty" minimum:"0" maximum:"1000" doc:"Requests that a node has in progress for one batch; default 16"`
	OverBudget  string `json:"over_budget,omitempty" enum:"run,refuse" doc:"What happens to a batch whose estimate is more than a budget has left; default run"`
	AtOnce      int    `json:"at_once,omitempty" minimum:"0" maximum:"100" doc:"Batches that a node runs at a time; default 4"`
}

func (f *Files) check() *fault {
	const least = 1 << 20
	switch {
	case f.KeepBatchDays < 0:
		return at(errors.New("must be at least 1"), "files.keep_batch_days")
	case f.KeepDeleted < 0:
		return at(errors.New("must be at least 1"), "files.keep_deleted_days")
	case f.UploadsAtOnce < 0:
		return at(errors.New("must be at least 1"), "files.uploads_at_once")
	case f.WorkspaceQuota != 0 && f.WorkspaceQuota < least:
		return at(errors.New("must be at least 1 MB"), "files.workspace_quota")
	case f.MaxSize != 0 && f.MaxSize < least:
		return at(errors.New("must be at least 1 MB"), "files.max_size")
	case f.CopyLimit != 0 && f.CopyLimit < least:
		return at(errors.New("must be at least 1 MB"), "files.copy_limit")
	}
	return nil
}

func (b *Batches) check() *fault {
	switch {
	case b.MaxLines < 0:
		return at(errors.New("must be at least 1"), "batches.max_lines")
	case b.Concurrency < 0:
		return at(errors.New("must be at least 1"), "batches.concurrency")
	case b.AtOnce < 0:
		return at(errors.New("must be at least 1"), "batches.at_once")
	}
	return nil
}
