package route

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// SplitVersion splits the name of an object from the number of its version, as in
// pc-x@3. Zero is the current version.
func SplitVersion(field, ref string) (name string, version int64, err error) {
	name, text, ok := strings.Cut(ref, "@")
	if !ok {
		return ref, 0, nil
	}
	if version, err = strconv.ParseInt(text, 10, 32); err != nil || version < 1 {
		return "", 0, Invalid(field, "must have the number of a version after @, as in %.60s@3", name)
	}
	return name, version, nil
}

// MissingVersion returns the error for a version that an object, a config for example, does
// not have. Versions are numbered from 1 to newest without gaps.
func MissingVersion(field, object string, number, newest int64) error {
	if newest == 1 {
		return apierr.New(apierr.NotFound, "version %d of %s not found; it has only version 1", number, object).WithParam(field)
	}
	return apierr.New(apierr.NotFound, "version %d of %s not found; it has versions 1 to %d", number, object, newest).WithParam(field)
}

// ConfigVersion returns the version of a config with this number. If there is none, the
// error names field and the versions that exist.
func ConfigVersion(ctx context.Context, q store.Queries, field string, row store.Config, number int64) (store.ConfigVersion, error) {
	v, err := q.ConfigVersionNumber(ctx, row.ID, number)
	if !apierr.IsNotFound(err) {
		return v, err
	}
	newest, err := q.ConfigVersion(ctx, row.VersionID)
	if apierr.IsNotFound(err) || err == nil {
		err = MissingVersion(field, fmt.Sprintf("config %q", row.Slug), number, newest.Number)
	}
	return v, err
}
