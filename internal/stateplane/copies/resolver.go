package copies

import (
	"context"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Resolver finds the files that bodies refer to, and copies those that the target of a
// request does not have. It is safe for concurrent use.
type Resolver struct {
	Deps *kept.Deps
}

// Resolve implements [dataplane.FileResolver].
func (r Resolver) Resolve(ctx context.Context, q *dataplane.FileQuery) (map[string]string, error) {
	var other map[string]string
	for _, ref := range q.Files {
		id, isFile := idOf(ref, q)
		if !isFile {
			continue
		}
		with, err := r.resolve(ctx, q, ref, id)
		if err != nil {
			return nil, err
		}
		if with != ref && with != "" {
			if other == nil {
				other = make(map[string]string)
			}
			other[ref] = with
		}
	}
	return other, nil
}

// geminiHost is the host of addresses of files of Gemini.
const geminiHost = "generativelanguage.googleapis.com"

// ownPrefix is the beginning of the ids of the gateway's own files.
const ownPrefix = "gw_"

// idOf returns the id in a reference. An address that is not one of a file at a provider of
// the request, such as one of a video, is not a reference.
func idOf(ref string, q *dataplane.FileQuery) (id string, isFile bool) {
	rest, hasScheme := ref, strings.Contains(ref, ":")
	if hasScheme {
		u, err := url.Parse(ref)
		if err != nil || !strings.EqualFold(u.Hostname(), geminiHost) && !isAtTarget(u, q.Managed) {
			return "", false
		}
		rest = u.Path
	}
	if i := strings.LastIndex(rest, "files/"); i >= 0 {
		id, _, _ = strings.Cut(rest[i+len("files/"):], "/")
		id, _, _ = strings.Cut(id, ":")
		return id, id != ""
	}
	return rest, !hasScheme
}

// isAtTarget reports whether an address is below that of a target with files of Gemini.
func isAtTarget(u *url.URL, targets []*provider.Target) bool {
	for _, t := range targets {
		if _, ok := t.PathBelow(u); ok && protocolOf(t) == ofGemini {
			return true
		}
	}
	return false
}

// fileKinds are the kinds of records that are files.
var fileKinds = [...]string{store.ObjectFile, store.ObjectAnthropicFile, store.ObjectGeminiFile, store.ObjectCopy}

// lookUp returns the record of a file of a workspace by its own id or its provider's.
func (r Resolver) lookUp(ctx context.Context, workspace, id string) (o store.Object, err error) {
	for _, kind := range fileKinds {
		o, err = r.Deps.DB.Object(ctx, workspace, kind, id)
		if err == nil || !apierr.IsNotFound(err) {
			break
		}
	}
	return o, err
}

// resolve returns what takes the place of a reference; empty for an unknown one that may pass.
func (r Resolver) resolve(ctx context.Context, q *dataplane.FileQuery, ref, id string) (string, error) {
	o, err := r.lookUp(ctx, q.Identity.Workspace, id)
	switch {
	case apierr.IsNotFound(err) && r.Deps.Limits.Unrecorded && !strings.HasPrefix(id, ownPrefix):
		return "", nil
	case apierr.IsNotFound(err):
		return "", kept.NotFound(store.ObjectFile, paramOf(q))
	case err != nil:
		return "", r.Deps.DB.ClientError(err)
	}
	if at := targetOf(&o, q.Managed); at != nil {
		return reference(ref, &o, at, q)
	}
	if o.Kind == store.ObjectCopy { // at a provider that the request does not go to
		if o, err = r.Deps.DB.ObjectByID(ctx, o.Parent); err != nil {
			return "", r.Deps.DB.ClientError(err)
		}
	}
	w := &Copy{
		Deps: r.Deps, Identity: q.Identity, Nested: true, TraceID: q.TraceID, File: &o, Param: paramOf(q), Name: ref, Purpose: purposeOf(&o),
	}
	at := q.Managed[0]
	if isGemini := protocolOf(at) == ofGemini; q.Client == api.DialectGemini && !isGemini {
		return "", w.refuse("@"+at.Slug, "which takes no fileUri")
	}
	made, err := w.At(ctx, "@"+at.Slug)
	if err != nil {
		return "", err
	}
	return reference(ref, made, at, q)
}

// targetOf returns the target that has a file, nil if none has.
func targetOf(o *store.Object, targets []*provider.Target) *provider.Target {
	for _, t := range targets {
		if o.ProviderID != "" && o.Provider == "@"+t.Slug {
			return t
		}
	}
	return nil
}

// reference returns what a body says to refer to a file at a target.
func reference(ref string, o *store.Object, at *provider.Target, q *dataplane.FileQuery) (string, error) {
	if protocolOf(at) != ofGemini {
		return o.ProviderID, nil
	}
	if strings.Contains(ref, ":") && !strings.HasPrefix(ref, ownPrefix) && strings.HasSuffix(ref, "files/"+o.ProviderID) {
		return ref, nil
	}
	if q.Client != api.DialectGemini {
		return "files/" + o.ProviderID, nil
	}
	d, err := files.DetailsOf(o)
	if err != nil {
		return "", err
	}
	if address := addressIn(d.Shown); address != "" {
		return address, nil
	}
	return "https://" + geminiHost + "/v1beta/files/" + o.ProviderID, nil
}

// paramOf returns the name of the member that refers to a file.
func paramOf(q *dataplane.FileQuery) string {
	if q.Client == api.DialectGemini {
		return "fileUri"
	}
	return "file_id"
}

// purposeOf returns the purpose of the copy of a file that a message refers to.
func purposeOf(o *store.Object) string {
	if o.Kind == store.ObjectFile && (o.Label == "vision" || o.Label == "assistants") {
		return o.Label
	}
	return "user_data"
}
