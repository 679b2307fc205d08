package simulator

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	s3Family = "s3"
	gsFamily = "gs"
	// bucketUploadFamily has the uploads in parts that are in progress.
	bucketUploadFamily = "s3.upload"
	// minPartSize is the least size of every part except the last.
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
	minPartSize = 5 << 20
)

// s3Protocol is the protocol of errors of buckets.
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
var s3Protocol = protocol{name: "converse", index: converseIndex, kind: framingEvents, stream: typeStream, fail: failS3, errorType: typeXML,
	kinds: map[int]string{http.StatusBadRequest: "InvalidRequest", http.StatusUnauthorized: "AccessDenied",
		http.StatusNotFound:        "NoSuchKey",
		http.StatusTooManyRequests: "SlowDown", http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "SlowDown",
		http.StatusRequestEntityTooLarge: "EntityTooLarge"}}

var typeXML = []string{"application/xml"}

func failS3(x *exchange, dst []byte, status int, e providerError) []byte {
	raw, _ := xml.Marshal(struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		RequestID string `xml:"RequestId"`
	}{Code: cmp.Or(e.code, x.protocol.errorKind(status)), Message: e.message, RequestID: strconv.FormatInt(x.number, 10)})
	return append(append(dst, xml.Header...), raw...)
}

// A bucketObject is an object in a bucket.
type bucketObject struct {
	name     string // bucket, slash and key
	content  []byte
	tag      string // ETag without quotes
	kind     string // Content-Type
	modified time.Time
	half     bool // its content is cut half way
}

// bucketUpload is an upload in parts.
type bucketUpload struct {
	mu    sync.Mutex
	name  string
	kind  string
	parts map[int][]byte // guarded by mu
}

// putObject stores an object. family says whether it is S3's or Google's.
func (s *Simulator) putObject(family string, o *bucketObject) {
	if family == s3Family && s.opts.Buckets != "" {
		s.writeBucket(o)
		return
	}
	digest := md5.Sum(o.content)
	o.tag = cmp.Or(o.tag, hex.EncodeToString(digest[:]))
	o.modified = time.Now()
	s.stored.add(family, o.name, len(o.content), o)
}

// objectsBelow returns the objects whose names begin with a prefix, in the order
// of their names.
func (s *Simulator) objectsBelow(family, prefix string) []*bucketObject {
	if family == s3Family && s.opts.Buckets != "" {
		return s.readBuckets(prefix)
	}
	list := slices.DeleteFunc(listRecords[*bucketObject](&s.stored, family), func(o *bucketObject) bool {
		return !strings.HasPrefix(o.name, prefix)
	})
	slices.SortFunc(list, func(a, b *bucketObject) int { return strings.Compare(a.name, b.name) })
	return list
}

// findObject returns the object with this name.
func (s *Simulator) findObject(family, name string) (*bucketObject, bool) {
	if family != s3Family || s.opts.Buckets == "" {
		return findRecord[*bucketObject](&s.stored, family, name)
	}
	for _, o := range s.readBuckets(name) {
		if o.name == name {
			return o, true
		}
	}
	return nil, false
}

// findS3 returns the service of a request for S3: below /s3, or signed for it.
func findS3(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/s3/") || strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request")
}

// serveS3 answers requests for objects, with the bucket in the path.
func serveS3(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(x.r.URL.Path, "/s3"), "/")
	query := x.r.URL.Query()
	_, key, _ := strings.Cut(name, "/")
	if strings.Contains(x.r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(x.r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		content, err := readChunked(x.in)
		if err != nil {
			x.refuse(statusOf, providerError{code: "IncompleteBody", message: "the chunks of the body cannot be read"})
			return
		}
		x.in = content
	}
	switch {
	case key == "" && x.r.Method == http.MethodGet:
		x.listBucket(strings.TrimSuffix(name, "/"), query)
	case key == "":
		x.refuse(http.StatusMethodNotAllowed, providerError{code: "MethodNotAllowed", message: "buckets can only be listed"})
	case query.Has("uploads") || query.Has("uploadId"):
		x.serveS3Upload(name, query)
	default:
		x.serveObject(s3Family, name)
	}
}

// readChunked decodes the chunks of a signed stream.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
func readChunked(raw []byte) (content []byte, err error) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil || n < 0 || n > int64(len(raw)) {
			return nil, errors.New("the size of a chunk is not a number")
		}
		if n == 0 {
			return content, nil
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, err
		}
		content = append(content, chunk[:n]...)
	}
}

// serveObject answers PUT, GET, HEAD and DELETE of an object.
func (x *exchange) serveObject(family, name string) {
	if x.r.Method == http.MethodPut {
		o := &bucketObject{name: name, content: bytes.Clone(x.in), kind: x.r.Header.Get("Content-Type"), half: x.plan.halfContent}
		x.sim.putObject(family, o)
		x.w.Header().Set("Etag", `"`+o.tag+`"`)
		if x.plan.lost {
			x.resetConn()
			return
		}
		x.sendBody(http.StatusOK, typeXML, nil)
		return
	}
	o, ok := x.sim.findObject(family, name)
	switch {
	case x.r.Method == http.MethodDelete:
		x.sim.stored.remove(family, name)
		x.w.WriteHeader(http.StatusNoContent)
	case !ok:
		x.refuse(http.StatusNotFound, providerError{code: "NoSuchKey", message: "The specified key does not exist."})
	case x.r.Method == http.MethodGet || x.r.Method == http.MethodHead:
		x.sendObject(o)
	default:
		x.refuse(http.StatusMethodNotAllowed, providerError{code: "MethodNotAllowed",
			message: "The method is not allowed against this resource."})
	}
}

func (x *exchange) sendObject(o *bucketObject) {
	h := x.w.Header()
	h.Set("Etag", `"`+o.tag+`"`)
	h.Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Amz-Object-Size", strconv.Itoa(len(o.content)))
	content, status := o.content, http.StatusOK
	if text := x.r.Header.Get("Range"); text != "" {
		from, to, ok := byteRange(text, len(content))
		if !ok {
			x.refuse(http.StatusRequestedRangeNotSatisfiable, providerError{code: "InvalidRange",
				message: "The requested range is not satisfiable"})
			return
		}
		h.Set("Content-Range", "bytes "+itoa(from)+"-"+itoa(to-1)+"/"+itoa(len(content)))
		content, status = content[from:to], http.StatusPartialContent
	}
	if o.half && x.r.Method == http.MethodGet {
		x.faulty, x.plan.cut = true, len(content)/2+1
	}
	x.sendBody(status, []string{cmp.Or(o.kind, "binary/octet-stream")}, content)
}

// byteRange parses a range of bytes of a content of this size.
func byteRange(text string, size int) (from, to int, ok bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	if !ok || size == 0 {
		return 0, 0, false
	}
	if first == "" { // the last bytes
		n, err := strconv.Atoi(last)
		return max(0, size-n), size, err == nil && n > 0
	}
	from, err := strconv.Atoi(first)
	to = size
	if err == nil && last != "" {
		to, err = strconv.Atoi(last)
		to = min(to+1, size)
	}
	return from, to, err == nil && from >= 0 && from < to
}

// A listedObject is an object in a list of S3.
type listedObject struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
	StorageClass string
}

// listBucket answers ListObjectsV2.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
func (x *exchange) listBucket(bucket string, query url.Values) {
	most := 1000
	if text := query.Get("max-keys"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			x.refuse(statusOf, providerError{code: "InvalidArgument", message: "max-keys is not a number"})
			return
		}
		most = min(n, most)
	}
	list := x.sim.objectsBelow(s3Family, bucket+"/"+query.Get("prefix"))
	after := cmp.Or(query.Get("continuation-token"), query.Get("start-after"))
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		KeyCount, MaxKeys     int
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []listedObject
	}{Name: bucket, Prefix: query.Get("prefix"), MaxKeys: most}
	for _, o := range list {
		key := strings.TrimPrefix(o.name, bucket+"/")
		if after != "" && key <= after {
			continue
		}
		if len(result.Contents) == most {
			result.IsTruncated = true
			if most > 0 {
				result.NextContinuationToken = result.Contents[most-1].Key
			}
			break
		}
		result.Contents = append(result.Contents, listedObject{Key: key, LastModified: o.modified.UTC().Format(time.RFC3339),
			ETag: `"` + o.tag + `"`, Size: len(o.content), StorageClass: "STANDARD"})
	}
	result.KeyCount = len(result.Contents)
	x.sendXML(result)
}

func (x *exchange) sendXML(v any) {
	raw, err := xml.Marshal(v)
	if err != nil {
		x.refuse(http.StatusInternalServerError, statusError(http.StatusInternalServerError))
		return
	}
	x.sendBody(http.StatusOK, typeXML, append([]byte(xml.Header), raw...))
}

// serveS3Upload answers the steps of an upload in parts.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
func (x *exchange) serveS3Upload(name string, query url.Values) {
	bucket, key, _ := strings.Cut(name, "/")
	if query.Has("uploads") && x.r.Method == http.MethodPost {
		id := "sim" + strconv.FormatInt(x.number, 10)
		x.sim.stored.add(bucketUploadFamily, id, 0, &bucketUpload{name: name, kind: x.r.Header.Get("Content-Type"),
			parts: map[int][]byte{}})
		x.sendXML(struct {
			XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket, Key, UploadId string
		}{Bucket: bucket, Key: key, UploadId: id})
		return
	}
	id := query.Get("uploadId")
	u, ok := findRecord[*bucketUpload](&x.sim.stored, bucketUploadFamily, id)
	if !ok || u.name != name {
		x.refuse(http.StatusNotFound, providerError{code: "NoSuchUpload", message: "The specified upload does not exist."})
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch x.r.Method {
	case http.MethodPut:
		n, err := strconv.Atoi(query.Get("partNumber"))
		if err != nil || n < 1 || n > 10000 {
			x.refuse(statusOf, providerError{code: "InvalidArgument",
				message: "Part number must be an integer between 1 and 10000, inclusive"})
			return
		}
		x.sim.stored.grow(bucketUploadFamily, id, len(x.in)-len(u.parts[n]))
		u.parts[n] = bytes.Clone(x.in)
		x.w.Header().Set("Etag", `"`+tagOf(x.in)+`"`)
		x.sendBody(http.StatusOK, typeXML, nil)
	case http.MethodDelete:
		x.sim.stored.remove(bucketUploadFamily, id)
		x.w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		x.completeS3Upload(u, id)
	default:
		x.refuse(http.StatusMethodNotAllowed, providerError{code: "MethodNotAllowed",
			message: "The method is not allowed against this resource."})
	}
}

func tagOf(content []byte) string {
	digest := md5.Sum(content)
	return hex.EncodeToString(digest[:])
}

// completeS3Upload joins the parts. The caller holds the upload's mu.
func (x *exchange) completeS3Upload(u *bucketUpload, id string) {
	var body struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if xml.Unmarshal(x.in, &body) != nil || len(body.Part) == 0 {
		x.refuse(statusOf, providerError{code: "MalformedXML", message: "The XML you provided was not well-formed."})
		return
	}
	var content []byte
	for i, part := range body.Part {
		data, ok := u.parts[part.PartNumber]
		switch {
		case i > 0 && part.PartNumber <= body.Part[i-1].PartNumber:
			x.refuse(statusOf, providerError{code: "InvalidPartOrder", message: "The list of parts was not in ascending order."})
			return
		case !ok || strings.Trim(part.ETag, `"`) != tagOf(data):
			x.refuse(statusOf, providerError{code: "InvalidPart", message: "One or more of the specified parts could not be found."})
			return
		case i < len(body.Part)-1 && len(data) < minPartSize:
			x.refuse(statusOf, providerError{code: "EntityTooSmall",
				message: "Your proposed upload is smaller than the minimum allowed size"})
			return
		}
		content = append(content, data...)
	}
	o := &bucketObject{name: u.name, content: content, kind: u.kind, half: x.plan.halfContent}
	o.tag = tagOf(content) + "-" + itoa(len(body.Part))
	x.sim.stored.remove(bucketUploadFamily, id)
	x.sim.putObject(s3Family, o)
	bucket, key, _ := strings.Cut(u.name, "/")
	x.sendXML(struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Location          string
		Bucket, Key, ETag string
	}{Location: x.origin() + x.r.URL.Path, Bucket: bucket, Key: key, ETag: `"` + o.tag + `"`})
}
