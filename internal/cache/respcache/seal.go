package respcache

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"modelgate/internal/base/secret"
)

// sealOverhead is what a sealed entry has in bytes in addition to its body, at most:
// its other fields, of which params are the largest.
const sealOverhead = 128 << 10

// recordName returns the name of an entry in a backend. Without the data key it says
// nothing about the request, and nobody can check a guess.
func recordName(dk *secret.DataKey, owner Tenant, key Key) string {
	return dk.Sign("cached response\x00" + binding(owner, key))
}

// binding returns the text that a sealed entry is bound to: it opens for this owner
// and key only, wherever else it is copied.
func binding(owner Tenant, key Key) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(owner.Organisation)))
	b = append(b, owner.Organisation...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(owner.Workspace)))
	b = append(b, owner.Workspace...)
	return string(append(b, key[:]...))
}

// seal returns e as a backend stores it: the length of the fields, the fields as
// JSON, and the body.
func seal(dk *secret.DataKey, key Key, e *Entry) ([]byte, error) {
	fields, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, 4, 4+len(fields)+len(e.Body))
	binary.BigEndian.PutUint32(plain, uint32(len(fields)))
	plain = append(append(plain, fields...), e.Body...)
	return dk.SealMessage(plain, binding(e.Owner, key)), nil
}

var errDamaged = errors.New("the entry is damaged")

// open returns the entry that was sealed for this owner and key.
func open(dk *secret.DataKey, owner Tenant, key Key, sealed []byte) (*Entry, error) {
	plain, err := dk.OpenMessage(sealed, binding(owner, key))
	if err != nil {
		return nil, err
	}
	if len(plain) < 4 {
		return nil, errDamaged
	}
	n := int64(binary.BigEndian.Uint32(plain))
	if n > int64(len(plain)-4) {
		return nil, errDamaged
	}
	e := new(Entry)
	if err := json.Unmarshal(plain[4:4+n], e); err != nil {
		return nil, errDamaged
	}
	if e.Body = plain[4+n:]; e.Owner != owner {
		return nil, errDamaged
	}
	return e, nil
}
