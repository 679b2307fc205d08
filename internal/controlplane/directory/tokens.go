package directory

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// maxTokens is the number of tokens of an organisation: one in use, and its successor during a
// rotation.
const maxTokens = 2

func addTokens(a *route.API) {
	f := route.Family{Path: "/scim/tokens", Tag: "Directories", Scopes: []string{"directory"}, Resource: "directory_token"}
	route.Add(a, f.Route(http.MethodGet, "", "list-directory-tokens", "list", "List the tokens of the organisation's directory"), listTokens)
	route.Add(a, route.Fresh(f.Route(http.MethodPost, "", "create-directory-token", "create",
		"Create a token for the organisation's directory")), createToken)
	route.Add(a, route.Fresh(f.Route(http.MethodDelete, "/{token}", "delete-directory-token", "delete",
		"Delete a token at once")), deleteToken)
}

type tokenItem struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Hint       string     `json:"hint" doc:"End of the token"`
	CreatedBy  string     `json:"created_by"`
	CreatedAt  route.Time `json:"created_at"`
	LastUsedAt route.Time `json:"last_used_at" doc:"At most a minute before the last use; null for never"`
}

func toTokenItem(t store.DirectoryToken) tokenItem {
	return tokenItem{"directory_token", t.ID, t.Name, t.Hint, t.CreatedBy, route.Time(t.CreatedAt), route.Time(t.LastUsedAt)}
}

type tokensInput struct{ route.LongPaging }

func listTokens(ctx context.Context, c *route.Caller, in *tokensInput) (*route.List[tokenItem], error) {
	list, err := c.DB().DirectoryTokens(ctx, c.Organisation)
	return route.PageOf(list, in.LongPaging, err, toTokenItem)
}

type tokenInput struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"255"`
	}
}

type newToken struct {
	tokenItem
	Token string `json:"token" doc:"Shown only once"`
	URL   string `json:"url" doc:"Address that the directory calls"`
}

// createToken creates a token. It can make users admins of workspaces and, if the organisation
// allows it, of itself, so only those who may do that can create one.
func createToken(ctx context.Context, c *route.Caller, in *tokenInput) (*newToken, error) {
	if err := c.CheckRole(access.Admin); err != nil {
		return nil, err
	}
	secret := access.NewDirectoryToken()
	text := secret.Reveal()
	t := store.DirectoryToken{ID: c.NewID(), Organisation: c.Organisation, Name: in.Body.Name, Hash: access.HashKey(text).String(),
		Hint: text[len(text)-4:], CreatedBy: c.Actor(), CreatedAt: c.Now}
	c.SetAuditSubject("", t.ID)
	err := c.Change(ctx, func(tx *store.Tx) error {
		list, err := tx.DirectoryTokens(ctx, c.Organisation)
		if err == nil && len(list) >= maxTokens {
			err = apierr.New(apierr.Conflict, "the organisation has %d tokens for its directory already; delete one first", maxTokens)
		}
		if err != nil {
			return err
		}
		return tx.CreateDirectoryToken(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	return &newToken{toTokenItem(t), text, location(c, "")}, nil
}

type tokenRef struct {
	Token string `path:"token" maxLength:"255"`
}

func deleteToken(ctx context.Context, c *route.Caller, in *tokenRef) (*route.Empty, error) {
	t, err := c.DB().DirectoryToken(ctx, c.Organisation, in.Token)
	if err := c.CheckFound("", t.ID, err, route.NotFound("token", "token", in.Token)); err != nil {
		return nil, err
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteDirectoryToken(ctx, c.Organisation, t.ID) })
}

// Use is the use of a token of a directory.
type Use struct {
	Token  string
	Now    time.Time
	Logger *slog.Logger
}

// touchTime is how often the last use of a token is stored.
const touchTime = time.Minute

// Identify returns the identity of a directory by its token. An unknown or deleted token is an
// *apierr.Error of kind Unauthenticated.
func Identify(ctx context.Context, db *store.DB, u Use) (*access.Identity, error) {
	t, err := db.DirectoryTokenByHash(ctx, access.HashKey(u.Token).String())
	if apierr.IsNotFound(err) {
		return nil, apierr.New(apierr.Unauthenticated, "the token of the directory is unknown or was deleted").WithCode("AB05")
	}
	if err != nil {
		return nil, db.ClientError(err)
	}
	if u.Now.Sub(t.LastUsedAt) >= touchTime {
		if err := db.TouchDirectoryToken(ctx, t.ID, u.Now); err != nil {
			u.Logger.Warn("last use of a directory token not stored", "token", t.ID, "err", err.Error())
		}
	}
	return &access.Identity{KeyID: t.ID, Type: access.Directory, Name: t.Name, Organisation: t.Organisation}, nil
}
