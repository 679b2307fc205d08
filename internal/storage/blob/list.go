package blob

import (
	"context"
	"encoding/xml"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// List implements [Store]. Files whose names cannot be ones of this package are skipped.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
func (b *Bucket) List(ctx context.Context, folder string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if folder != "" {
			if err := check(folder); err != nil {
				yield(Info{}, err)
				return
			}
			folder += "/"
		}
		for from := ""; ; {
			page, err := b.listPage(ctx, b.prefix+folder, from)
			if err == nil && page.More && (page.Next == "" || page.Next == from) {
				err = errNotS3(errors.New("a page of a list has no successor"))
			}
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, f := range page.Files {
				if name, ok := b.fileName(f.Key, page.Encoding); ok && !yield(Info{name, f.Size, f.LastModified}, nil) {
					return
				}
			}
			if from = page.Next; !page.More {
				return
			}
		}
	}
}

// listPage is a page of a list of files.
type listPage struct {
	Encoding string `xml:"EncodingType"`
	More     bool   `xml:"IsTruncated"`
	Next     string `xml:"NextContinuationToken"`
	Files    []struct {
		Key          string
		Size         int64
		LastModified time.Time
	} `xml:"Contents"`
}

// listPage returns the page of the files with a prefix that from, of the page before,
// refers to. The first page has the empty one.
func (b *Bucket) listPage(ctx context.Context, prefix, from string) (page listPage, err error) {
	query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}} // names of others may not be XML
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if from != "" {
		query.Set("continuation-token", from)
	}
	a, err := b.ask(ctx, http.MethodGet, "", query, nil)
	if err != nil {
		return page, err
	}
	if err := xml.Unmarshal(a.text, &page); err != nil {
		return page, errNotS3(err)
	}
	return page, nil
}

func errNotS3(err error) error { return fault(err, "the bucket returned a response that is not S3") }

// fileName returns the name of the file with a key.
func (b *Bucket) fileName(key, encoding string) (name string, ok bool) {
	if encoding == "url" {
		plain, err := url.QueryUnescape(key)
		if err != nil {
			return "", false
		}
		key = plain
	}
	name, ok = strings.CutPrefix(key, b.prefix)
	return name, ok && check(name) == nil
}

// DeleteIncomplete implements [Store]: it aborts uploads in parts. Servers that do not
// list uploads keep their parts.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListMultipartUploads.html
func (b *Bucket) DeleteIncomplete(ctx context.Context, before time.Time) error {
	var key, id string // of the last upload of a page
	for {
		page, err := b.listUploads(ctx, b.prefix, key, id)
		if f, ok := errors.AsType[*Error](err); ok && f.status == http.StatusNotImplemented {
			return nil
		}
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if strings.HasPrefix(u.Key, b.prefix) && u.Initiated.Before(before) {
				b.abort(ctx, u.Key, u.UploadId)
			}
		}
		if !page.More || page.NextKey == key && page.NextID == id {
			return ctx.Err()
		}
		key, id = page.NextKey, page.NextID
	}
}

// uploadsPage is a page of a list of incomplete uploads.
type uploadsPage struct {
	More    bool   `xml:"IsTruncated"`
	NextKey string `xml:"NextKeyMarker"`
	NextID  string `xml:"NextUploadIdMarker"`
	Uploads []struct {
		Key, UploadId string
		Initiated     time.Time
	} `xml:"Upload"`
}

// listUploads returns the page of the incomplete uploads of files with a prefix that
// follows an upload. The first page follows none.
func (b *Bucket) listUploads(ctx context.Context, prefix, key, id string) (page uploadsPage, err error) {
	query := url.Values{"uploads": {""}}
	for name, value := range map[string]string{"prefix": prefix, "key-marker": key, "upload-id-marker": id} {
		if value != "" {
			query.Set(name, value)
		}
	}
	a, err := b.ask(ctx, http.MethodGet, "", query, nil)
	if err != nil {
		return page, err
	}
	if err := xml.Unmarshal(a.text, &page); err != nil {
		return page, errNotS3(err)
	}
	return page, nil
}
