package factors

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/passkey"
	"modelgate/internal/store"
)

// maxPasskeys is the limit of a member's passkeys.
const maxPasskeys = 20

func toItem(p store.Passkey) passkeyItem {
	k := p.Credential
	return passkeyItem{
		ID: p.ID, Object: "passkey", Name: p.Name, Host: p.RPID, AAGUID: hex.EncodeToString(k.AAGUID),
		Transports:   append([]string{}, k.Transports...),
		UserVerified: k.UserVerified, BackupEligible: k.BackupEligible, BackedUp: k.BackupState, Clones: p.Clones,
		CreatedAt: route.Time(p.CreatedAt), LastUsedAt: route.Time(p.LastUsedAt),
	}
}

var encoding = base64.RawURLEncoding

// keyOf returns a stored passkey as the ceremonies need it.
func keyOf(p *store.Passkey) (k passkey.Key, err error) {
	c := p.Credential
	k = passkey.Key{
		PublicKey: c.PublicKey, Flags: c.Flags, UserVerified: c.UserVerified, SignCount: uint32(p.SignCount), AAGUID: c.AAGUID,
		Attachment: c.Attachment, Transports: c.Transports, Attestation: c.Attestation,
	}
	if k.ID, err = encoding.DecodeString(p.CredentialID); err == nil {
		k.Handle, err = encoding.DecodeString(p.Handle)
	}
	return k, err
}

// setKey puts what a ceremony said of a key into p.
func setKey(p *store.Passkey, k *passkey.Key) {
	p.SignCount = int64(k.SignCount)
	p.Credential = store.PasskeyCredential{
		PublicKey: k.PublicKey, Flags: k.Flags, UserVerified: k.UserVerified, BackupEligible: k.IsBackupEligible(), BackupState: k.IsBackedUp(),
		AAGUID: k.AAGUID, Attachment: k.Attachment, Transports: k.Transports, Attestation: k.Attestation,
	}
}

// beginPasskey begins to add a passkey to the caller.
func (f *family) beginPasskey(ctx context.Context, c *route.Caller, _ *struct{}) (*challenge, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	where, err := site(c)
	if err != nil {
		return nil, err
	}
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB().Passkeys(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	m := passkey.Member{Name: u.Email + " (" + o.Slug + ")"} // which of a person's organisations it is for
	for i := range rows {
		k, err := keyOf(&rows[i])
		if err != nil {
			return nil, err
		}
		m.Keys, m.Handle = append(m.Keys, k), k.Handle
	}
	if m.Handle == nil {
		m.Handle = passkey.NewHandle()
	}
	options, made, err := passkey.Register(where, m)
	if err != nil {
		return nil, err
	}
	return f.begin(ctx, c, toRegister, options, made)
}

type addPasskeyInput struct {
	Body struct {
		Name    string          `json:"name,omitempty" maxLength:"100" doc:"To recognise it; Passkey by default"`
		Passkey json.RawMessage `json:"passkey" doc:"What navigator.credentials.create() returned, as JSON"`
		Cookie  *people.Cookie  `json:"cookie,omitempty" doc:"Returns the token of the new session, if there is one, as a cookie instead of in the body"`
	}
}

// addPasskey adds the passkey that the browser made.
func (f *family) addPasskey(ctx context.Context, c *route.Caller, in *addPasskeyInput) (*added, error) {
	c.AddAuditDetail("method", people.MethodPasskey)
	if err := checkSession(c); err != nil {
		return nil, err
	}
	w, err := f.resume(ctx, c, toRegister)
	if err != nil {
		return nil, toInvalid(err)
	}
	k, err := passkey.Registered(w.Ceremony, in.Body.Passkey)
	if err != nil {
		return nil, toInvalid(explain(c, err))
	}
	p := store.Passkey{
		ID: c.NewID(), Organisation: c.Organisation, UserID: c.UserID, CredentialID: encoding.EncodeToString(k.ID),
		Handle: encoding.EncodeToString(k.Handle), RPID: w.Host, Name: in.Body.Name, CreatedAt: c.Now,
	}
	if p.Name == "" {
		p.Name = "Passkey"
	}
	setKey(&p, &k)
	c.SetAuditAction("second_factor_add", p.ID)
	out, err := f.enrol(ctx, c, people.MethodPasskey, in.Body.Cookie, func(tx *store.Tx) error {
		if err := w.spend(ctx, c, tx); err != nil {
			return err
		}
		rows, err := tx.Passkeys(ctx, c.Organisation, c.UserID)
		if err == nil && len(rows) >= maxPasskeys {
			err = apierr.New(apierr.Invalid, "you can have %d passkeys; remove one first", maxPasskeys)
		}
		if err != nil {
			return err
		}
		return tx.CreatePasskey(ctx, p)
	})
	if e := apierr.From(err); err != nil && e.Kind == apierr.Conflict && e.Code == "" {
		err = apierr.New(apierr.Conflict, "this passkey was added before").WithParam("passkey")
	}
	out.ID, out.Object = p.ID, "passkey"
	return out, toInvalid(err)
}

// toInvalid turns a refusal of a new passkey into an invalid field: its sender
// is known.
func toInvalid(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Unauthenticated {
		return apierr.New(apierr.Invalid, "%s", e.Message).WithParam("passkey")
	}
	return err
}

// explain turns the refusal of a ceremony into an error for the client, and records which check
// failed. Other errors are returned as they are.
func explain(c *route.Caller, err error) error {
	if r, ok := errors.AsType[*passkey.Refusal](err); ok {
		c.AddAuditDetail("error", r.Error())
		return refuse(c, "passkey", "the passkey was not accepted; try again, or sign in another way")
	}
	return err
}

type passkeyInput struct {
	Passkey string `path:"passkey" maxLength:"255"`
}

type renameInput struct {
	Passkey string `path:"passkey" maxLength:"255"`
	Body    struct {
		Name string `json:"name" minLength:"1" maxLength:"100"`
	}
}

func (f *family) renamePasskey(ctx context.Context, c *route.Caller, in *renameInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("second_factor_rename", in.Passkey)
	err := c.Change(ctx, func(tx *store.Tx) error {
		rows, err := tx.Passkeys(ctx, c.Organisation, c.UserID)
		if err != nil {
			return err
		}
		for _, p := range rows {
			if p.ID == in.Passkey {
				p.Name = in.Body.Name
				return tx.UpdatePasskey(ctx, p)
			}
		}
		return route.NotFound("passkey", "passkey", in.Passkey)
	})
	return &route.Empty{}, err
}

func (f *family) deletePasskey(ctx context.Context, c *route.Caller, in *passkeyInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("second_factor_remove", in.Passkey)
	err := drop(ctx, c, func(tx *store.Tx) error { return tx.DeletePasskey(ctx, c.Organisation, c.UserID, in.Passkey) })
	if apierr.IsNotFound(err) {
		err = route.NotFound("passkey", "passkey", in.Passkey)
	}
	return &route.Empty{}, err
}
