package files

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// complete makes an upload a file: its parts in the order that the request names.
func complete(q *kept.Request, o *store.Object) error {
	body, err := q.Body()
	if err != nil {
		return err
	}
	var in struct {
		PartIDs []string `json:"part_ids"`
		MD5     string   `json:"md5"`
	}
	if err := json.Unmarshal(body, &in); err != nil || len(in.PartIDs) == 0 || len(in.PartIDs) > maxParts {
		return apierr.New(apierr.Invalid, "part_ids must be a list of 1 to %d ids of parts", maxParts).WithParam("part_ids")
	}
	d, err := uploadOf(o)
	if err != nil {
		return err
	}
	all, _, err := q.Deps.DB.Objects(q.HTTP.Context(), store.ObjectQuery{Workspace: o.Workspace, Kind: store.ObjectPart, Parent: o.ID,
		Limit: maxParts})
	if err != nil {
		return q.Deps.DB.ClientError(err)
	}
	content, used, err := joinParts(all, in.PartIDs)
	if err != nil {
		return err
	}
	if n := content.Size(); n != d.Bytes {
		return apierr.New(apierr.Invalid, "the parts have %d bytes, and the upload was begun with %d", n,
			d.Bytes).WithParam("part_ids").WithCode("size_mismatch")
	}
	file := q.NewObject(store.ObjectFile, "")
	file.ID, file.Provider, file.State, file.Label, file.Size = d.File, o.Provider, StateProcessed, o.Label, d.Bytes
	file.ExpiresAt = expiry(q.Deps, &file, d.Life > 0, time.Duration(d.Life)*time.Second)
	if file.Data, err = json.Marshal(Details{Filename: d.Filename, Bytes: d.Bytes, Content: content}); err != nil {
		return err
	}
	if err := checkMD5(q, &file, in.MD5); err != nil {
		return err
	}
	o.State = uploadCompleted
	if err := q.Change(func(tx *store.Tx) error { return storeCompleted(q.HTTP.Context(), tx, o, &file, all) }); err != nil {
		return err
	}
	for i := range all { // those that the file does not have
		if !used[all[i].ID] {
			q.Deps.DeleteContent(q.HTTP.Context(), &all[i])
		}
	}
	shown, err := describe(&file)
	if err != nil {
		return err
	}
	return sendUpload(q, o, &d, &shown)
}

// storeCompleted stores a file in place of the parts of its upload.
func storeCompleted(ctx context.Context, tx *store.Tx, o, file *store.Object, parts []store.Object) error {
	if err := tx.UpdateObject(ctx, o); err != nil {
		return err
	}
	for i := range parts {
		if err := tx.DeleteObject(ctx, &parts[i]); err != nil {
			return err
		}
	}
	return tx.AddObject(ctx, *file)
}

// joinParts returns the content of parts in the order of ids, and which were used.
func joinParts(all []store.Object, ids []string) (content kept.Content, used map[string]bool, err error) {
	byID := make(map[string]*store.Object, len(all))
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	used = make(map[string]bool, len(ids))
	for _, id := range ids {
		part := byID[id]
		if part == nil || used[id] {
			return content, nil, apierr.New(apierr.Invalid, "the upload has no part %.80q, or its id is duplicated",
				id).WithParam("part_ids").WithCode("unknown_part")
		}
		used[id] = true
		c, err := kept.ContentOf(part)
		if err != nil {
			return content, nil, err
		}
		content.Blobs = append(content.Blobs, c.Blobs...)
	}
	return content, used, nil
}

// checkMD5 compares the content of a file with a checksum; empty is none.
func checkMD5(q *kept.Request, file *store.Object, want string) error {
	if want == "" {
		return nil
	}
	body, err := q.Deps.Open(q.HTTP.Context(), file)
	if err != nil {
		return err
	}
	defer body.Close()
	sum := md5.New()
	if _, err := io.Copy(sum, body); err != nil {
		return kept.StoreFailed(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, want) {
		return apierr.New(apierr.Invalid, "the parts have the MD5 checksum %s, not %.40q; send the damaged part again", got,
			want).WithParam("md5").WithCode("checksum_mismatch")
	}
	return nil
}

// completeThere completes an upload at its provider, and records the file.
func completeThere(q *kept.Request, o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	file := q.NewObject(store.ObjectFile, "gw_file_")
	file.Provider, file.Integration = o.Provider, o.Integration
	res, err := q.Create(&file, q.ForwardedTo(o), func(body []byte) error {
		var u struct {
			File json.RawMessage `json:"file"`
		}
		if err := json.Unmarshal(body, &u); err != nil {
			return kept.RefuseUnreadable("upload")
		}
		return adoptFile(&file, u.File)
	})
	if err != nil {
		return err
	}
	return res.Send(q.W)
}
