package guarding

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// plainForm is how a body that is not JSON becomes a JSON value that hooks read, and back.
type plainForm struct {
	decode func(body []byte) ([]byte, error)
	encode func(value []byte) ([]byte, error)
}

const mediaForm = "application/x-www-form-urlencoded"

var (
	plainText = plainForm{
		decode: func(body []byte) ([]byte, error) { return jsonedit.AppendString(nil, string(body)), nil },
		encode: func(value []byte) ([]byte, error) {
			v, err := jsonedit.ParseValue(value)
			text, ok := v.Text()
			if err != nil || !ok {
				return nil, errNotPlain
			}
			return []byte(text), nil
		},
	}
	// A form is an array of objects with one member each: names may repeat.
	urlencoded = plainForm{decode: decodeForm, encode: encodeForm}

	errNotPlain = errors.New("a guardrail returned a body of another form")
	errNotUTF8  = errors.New("not in UTF-8")
)

// charsetField is the field of forms that names their charset.
// https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#naming-form-controls:-the-name-attribute
const charsetField = "_charset_"

// markup returns the form of text with references, which hooks read as it is and with them decoded.
func markup(unescape func(string) string) plainForm {
	return plainForm{
		decode: func(body []byte) ([]byte, error) {
			text := string(body)
			plain := unescape(text)
			if plain == text {
				return plainText.decode(body)
			}
			var b jsonedit.Builder
			b.Open('[')
			b.String(text)
			b.String(plain)
			b.Close(']')
			return b.Bytes(), nil
		},
		encode: func(value []byte) ([]byte, error) {
			list, err := jsonedit.ParseValue(value)
			if err != nil || list.Kind() != jsonedit.Array {
				return plainText.encode(value)
			}
			var texts []string
			for e := range list.Elements() {
				text, _ := e.Text()
				texts = append(texts, text)
			}
			if len(texts) != 2 || unescape(texts[0]) != texts[1] {
				return nil, errNotPlain
			}
			return []byte(texts[0]), nil
		},
	}
}

func decodeForm(body []byte) ([]byte, error) {
	var b jsonedit.Builder
	b.Open('[')
	for pair := range strings.SplitSeq(string(body), "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return nil, err
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, err
		}
		if !isReadable([]byte(name)) || !isReadable([]byte(value)) || name == charsetField && !readsAsUTF8(value) {
			return nil, errNotUTF8
		}
		b.Open('{')
		b.Name(name)
		b.String(value)
		b.Close('}')
	}
	b.Close(']')
	return b.Bytes(), nil
}

func encodeForm(value []byte) ([]byte, error) {
	list, err := jsonedit.ParseValue(value)
	if err != nil || list.Kind() != jsonedit.Array {
		return nil, errNotPlain
	}
	var pairs []string
	for e := range list.Elements() {
		for name, v := range e.Fields() {
			text, _ := v.Text()
			pairs = append(pairs, url.QueryEscape(name.String())+"="+url.QueryEscape(text))
		}
	}
	return []byte(strings.Join(pairs, "&")), nil
}

// isTextMedia reports whether a media type is one of text.
func isTextMedia(media string) bool {
	return strings.HasPrefix(media, "text/") && media != framing.MediaEvents || media == "application/xml" ||
		strings.HasSuffix(media, "+xml") || media == mediaForm
}

// mayBeText reports whether a body that begins with head may be text, by its media type or
// because it is UTF-8 without control characters.
func mayBeText(media string, head []byte) bool {
	if isTextMedia(media) {
		return true
	}
	for n := 0; n < utf8.UTFMax-1 && len(head) == peekSize && !utf8.Valid(head); n++ { // cut in a character
		head = head[:len(head)-1]
	}
	return utf8.Valid(head) && !slices.ContainsFunc(head, func(c byte) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' })
}

// plainDocument returns the document of a body of text, or of a form.
func plainDocument(r *exchange.Request, form bodytext.Form, media string, body []byte) (*document, plainForm, error) {
	if !isReadable(body) || !isDeclaredUTF8(body) {
		return nil, plainForm{}, errNotUTF8
	}
	plain := plainText
	if media == mediaForm {
		plain = urlencoded
	} else if unescape := markupDecoder(media); unescape != nil {
		plain = markup(unescape)
	}
	value, err := plain.decode(body)
	if err != nil {
		return nil, plainForm{}, err
	}
	own := *r
	own.Operation = api.Proxy
	return newDocument(&own, form, value), plain, nil
}
