package toolserver

import "strings"

// ExpandAddress returns an address in which each {name} is replaced by the text that value returns
// for it, and is left as it is if value reports false. Texts are not expanded. It reports false if
// the address has more than limit bytes, before or after that.
func ExpandAddress(address string, limit int, value func(name string) (text string, ok bool)) (string, bool) {
	if len(address) > limit {
		return "", false
	}
	var out strings.Builder
	for found := true; found; {
		var head, text string
		head, address, found = strings.Cut(address, "}")
		if from := strings.LastIndexByte(head, '{'); found && from >= 0 {
			replaced, ok := value(head[from+1:])
			if text = replaced; !ok {
				text = head[from:] + "}"
			}
			head = head[:from]
		} else if found {
			text = "}"
		}
		if out.Len()+len(head)+len(text) > limit {
			return "", false
		}
		out.WriteString(head)
		out.WriteString(text)
	}
	return out.String(), true
}
