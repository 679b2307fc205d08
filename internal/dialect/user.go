package dialect

import (
	"crypto/sha256"
	"encoding/hex"

	"modelgate/internal/model/llm"
)

// Longest ids of users, in bytes.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-user
// https://docs.claude.com/en/api/messages#body-metadata
const (
	MaxUserChat     = 64
	MaxUserMessages = 256
)

// User returns the id of the request's user for a protocol that takes at most this many
// bytes, 64 or more: a longer one is replaced by its hash, always the same one, which is recorded.
func (f *ParamChanges) User(most int) string {
	user := f.r.User
	if len(user) <= most {
		return user
	}
	f.Adapt(llm.FieldUser, noteHashedUser(most))
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:])
}
