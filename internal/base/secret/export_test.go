package secret

// SameKey returns data keys of one and the same key for any organisation.
func SameKey(organisation string) *DataKey {
	aead, err := newCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return &DataKey{aead: aead, organisation: organisation}
}
