package keys

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// transition is how long the previous secret is valid by default.
const transition = 30 * time.Minute

// rotationWeekday is the day on which weekly rotation is due, at 00:00 UTC.
const rotationWeekday = time.Monday

// RotationInput says when a key's secret is due for rotation; only one of the first
// three fields may be set.
type RotationInput struct {
	Period       *string `json:"rotation_period,omitempty" nullable:"true" enum:"weekly,monthly" doc:"On Monday or on the first of the month, 00:00 UTC"`
	PeriodDays   *int    `json:"rotation_period_days,omitempty" nullable:"true" minimum:"1" maximum:"365"`
	NextAt       *string `json:"next_rotation_at,omitempty" nullable:"true" maxLength:"40" doc:"A future time such as 2026-12-31T12:00:00Z, or +90d from now"`
	TransitionMS *int64  `json:"key_transition_period_ms,omitempty" nullable:"true" minimum:"0" maximum:"7776000000" doc:"How long the previous secret stays valid; 0 revokes it at once; defaults to 1800000"`
}

// policy is a stored rotation policy.
type policy struct {
	Period       string    `json:"rotation_period,omitempty"`
	PeriodDays   int       `json:"rotation_period_days,omitempty"`
	NextAt       time.Time `json:"next_rotation_at,omitzero"`
	TransitionMS int64     `json:"key_transition_period_ms"`
}

// rotation returns the stored form of in, nil for no policy.
func rotation(in *RotationInput, c *route.Caller) (json.RawMessage, error) {
	if in == nil {
		return nil, nil
	}
	p := policy{TransitionMS: transition.Milliseconds()}
	said := 0
	if in.Period != nil {
		p.Period = *in.Period
		said++
	}
	if in.PeriodDays != nil {
		p.PeriodDays = *in.PeriodDays
		said++
	}
	if in.NextAt != nil {
		var err error
		if p.NextAt, err = c.FutureTime("rotation_policy.next_rotation_at", *in.NextAt); err != nil {
			return nil, err
		}
		said++
	}
	if said != 1 {
		return nil, route.Invalid("rotation_policy", "must have exactly one of rotation_period, rotation_period_days and next_rotation_at")
	}
	if in.TransitionMS != nil {
		p.TransitionMS = *in.TransitionMS
	}
	if p.NextAt.IsZero() {
		p.NextAt = p.next(c.Now)
	}
	return json.Marshal(p)
}

// setRotation sets the rotation policy of k; nil removes it.
func setRotation(k *store.Key, in *RotationInput, c *route.Caller) (err error) {
	if k.RotationPolicy, err = rotation(in, c); err != nil {
		return err
	}
	return due(k)
}

// due sets when the secret of k is due for rotation.
func due(k *store.Key) error {
	k.RotationDueAt = time.Time{}
	p, err := readPolicy(k.RotationPolicy)
	if err == nil && p != nil {
		k.RotationDueAt = p.NextAt
	}
	return err
}

// next returns when rotation is due after a rotation at now, zero for never.
func (p policy) next(now time.Time) time.Time {
	today := now.UTC().Truncate(24 * time.Hour)
	switch {
	case p.Period == "monthly":
		return time.Date(today.Year(), today.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case p.Period == "weekly":
		return today.AddDate(0, 0, (int(rotationWeekday-today.Weekday())+6)%7+1)
	case p.PeriodDays > 0:
		return today.AddDate(0, 0, p.PeriodDays)
	}
	return time.Time{}
}

// readPolicy decodes a stored policy; nil means none.
func readPolicy(raw json.RawMessage) (*policy, error) {
	var p *policy
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("reading a rotation policy: %w", err)
	}
	return p, nil
}

type rotateInput struct {
	Named
	Body *struct {
		TransitionMS *int64 `json:"key_transition_period_ms,omitempty" nullable:"true" minimum:"0" maximum:"7776000000" doc:"Overrides the policy's transition; 0 revokes the previous secret at once"`
	} `required:"false"`
}

type rotated struct {
	ID     string     `json:"id"`
	Key    string     `json:"key" doc:"The new secret, shown only once"`
	EndsAt route.Time `json:"key_transition_expires_at" doc:"Until then the previous secret is valid too; null if it is already revoked"`
	Object string     `json:"object"`
}

func rotate(ctx context.Context, c *route.Caller, in *rotateInput) (*rotated, error) {
	secret := access.NewKey()
	out := &rotated{Key: secret.Reveal(), Object: "api-key"}
	_, err := change(ctx, c, in.Named, "rotate", func(tx *store.Tx, k *store.Key) error {
		if err := cmp.Or(checkLasting(c, k.Type), checkHasSecret(k), checkRotatable(ctx, c, tx.Queries, *k)); err != nil {
			return err
		}
		p, err := readPolicy(k.RotationPolicy)
		if err != nil {
			return err
		}
		lasts := transition
		if p != nil {
			lasts = time.Duration(p.TransitionMS) * time.Millisecond
			p.NextAt = p.next(c.Now)
			if k.RotationPolicy, err = json.Marshal(p); err != nil {
				return err
			}
			k.RotationDueAt = p.NextAt
		}
		if in.Body != nil && in.Body.TransitionMS != nil {
			lasts = time.Duration(*in.Body.TransitionMS) * time.Millisecond
		}
		k.PreviousHash, k.TransitionEndsAt = nil, time.Time{} // of a transition still in progress
		if before := k.Hash; lasts > 0 {
			k.PreviousHash, k.TransitionEndsAt = &before, c.Now.Add(lasts)
		}
		k.Hash, k.Mask = access.HashKey(out.Key), store.Mask(secret)
		out.ID, out.EndsAt = k.ID, route.Time(k.TransitionEndsAt)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkRotatable returns an error if a key cannot be rotated now.
func checkRotatable(ctx context.Context, c *route.Caller, q store.Queries, k store.Key) error {
	if k.StatusAt(c.Now) == store.KeyExpired {
		return apierr.New(apierr.Conflict, "the key has expired; set a later expires_at first")
	}
	return checkRotation(ctx, c, q, k)
}
