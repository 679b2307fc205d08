package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	fireworksDatasets = "fireworks.datasets"
	fireworksBatches  = "fireworks.batchInferenceJobs"
	fireworksTunings  = "fireworks.supervisedFineTuningJobs"
)

// fireworksProtocol is the protocol of errors of the management API.
var fireworksProtocol = protocol{name: "chat", index: chatIndex, kind: framingEvents, stream: typeStream, fail: failFireworks}

func failFireworks(_ *exchange, dst []byte, status int, e providerError) []byte {
	return appendAll(dst, `{"code":`, itoa(cmp.Or(grpcCodes[status], 13)), `,"message":`, quoted(e.message), `,"details":[]}`)
}

// fireworksStates are the states of jobs by phase.
var fireworksStates = [jobPhaseCount]string{
	jobQueued: "JOB_STATE_VALIDATING", jobRunning: "JOB_STATE_RUNNING", jobWriting: "JOB_STATE_WRITING_RESULTS",
	jobCanceling: "JOB_STATE_CANCELLING", jobCompleted: "JOB_STATE_COMPLETED", jobFailed: "JOB_STATE_FAILED",
	jobCanceled: "JOB_STATE_CANCELLED", jobExpired: "JOB_STATE_EXPIRED",
}

// fireworksID is the form of ids of resources.
var fireworksID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// A dataset is lines in files, of Fireworks.
type dataset struct {
	name   string // of the resource
	about  map[string]any
	mu     sync.Mutex // guards all fields below
	files  map[string][]byte
	sizes  map[string]int64 // as announced, by the name of a file
	ready  bool
	wrong  string
	at     string // creation
	source string // job that made it
}

// describe returns the dataset. The caller holds mu, or nobody else has d.
func (d *dataset) describe() any {
	state, status := "UPLOADING", object{"code": "OK", "message": ""}
	if d.ready {
		state = "READY"
	}
	if d.wrong != "" {
		status = object{"code": "INVALID_ARGUMENT", "message": d.wrong}
	}
	count := 0
	for _, content := range d.files {
		for range eachLine(content) {
			count++
		}
	}
	v := object{"name": d.name, "createTime": d.at, "updateTime": d.at, "state": state, "status": status, "exampleCount": itoa(count),
		"userUploaded": object{}, "sourceJobName": d.source}
	for name, value := range d.about {
		if name == "displayName" || name == "format" {
			v[name] = value
		}
	}
	return v
}

// validate checks the lines, and makes the dataset ready. The caller holds mu.
func (d *dataset) validate() {
	d.wrong, d.ready = "", false
	if len(d.files) == 0 {
		d.wrong = "the dataset has no files"
	}
	for name, content := range d.files {
		if size, ok := d.sizes[name]; ok && size != int64(len(content)) {
			d.wrong = "the file " + name + " has another size than was announced"
		}
		for number, line := range eachLine(content) {
			if !json.Valid(line) {
				d.wrong = "the file " + name + " has an invalid line " + itoa(number)
				break
			}
		}
	}
	d.ready = d.wrong == ""
}

// content returns the lines of all files. It returns false unless the dataset is
// ready.
func (d *dataset) content() (all []byte, ok bool) {
	if d == nil {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		all = append(append(all, bytes.TrimRight(d.files[name], "\n")...), '\n')
	}
	return all, d.ready
}

// serveFireworks answers the routes below /accounts/{account}.
// https://docs.fireworks.ai/api-reference/introduction
func serveFireworks(x *exchange) {
	parts := x.segments("/accounts/")
	if len(parts) < 2 {
		parts = []string{"", ""}
	}
	collection := parts[1]
	id, verb := "", ""
	if len(parts) > 2 {
		id, verb, _ = strings.Cut(parts[2], ":")
	}
	f := &fireworksCall{exchange: x, account: parts[0], id: id, verb: verb}
	switch {
	case collection == "datasets":
		f.family = fireworksDatasets
		f.serveDatasets(parts)
	case collection == "batchInferenceJobs":
		f.family = fireworksBatches
		f.serveJobs("batchInferenceJobs", (*fireworksCall).createBatch)
	case collection == "supervisedFineTuningJobs":
		f.family = fireworksTunings
		f.serveJobs("supervisedFineTuningJobs", (*fireworksCall).createTuning)
	case x.readBody() && x.begin(nil):
		f.missing()
	}
}

// fireworksCall is a request to the management API.
type fireworksCall struct {
	*exchange
	account, family, id, verb string
}

func (f *fireworksCall) missing() {
	f.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "not found"})
}

// newName returns the name of a new resource, with the id of the request if it has
// one.
func (f *fireworksCall) newName(c *checker, collection, id string) string {
	if id == "" {
		id = "sim" + strconv.FormatInt(f.number, 10)
	}
	c.matches(id, collection+"Id", fireworksID)
	return "accounts/" + f.account + "/" + collection + "/" + id
}

func (f *fireworksCall) serveDatasets(parts []string) {
	if f.id == "" && f.r.Method == http.MethodPost {
		f.createDataset()
		return
	}
	name := "accounts/" + f.account + "/datasets/" + f.id
	d, ok := findRecord[*dataset](&f.sim.stored, f.family, name)
	if f.verb == "upload" && ok && f.r.Method == http.MethodPost {
		f.uploadDataset(d)
		return
	}
	if !f.readBody() || !f.begin(nil) {
		return
	}
	if ok {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	operation := f.r.Method + " " + f.verb
	switch {
	case f.id == "" && f.r.Method == http.MethodGet:
		f.listNamed("datasets", func() (list []namedResource) {
			for _, d := range listRecords[*dataset](&f.sim.stored, f.family) {
				list = append(list, namedResource{d.name, func() any {
					d.mu.Lock()
					defer d.mu.Unlock()
					return d.describe()
				}})
			}
			return list
		}())
	case !ok:
		f.missing()
	case len(parts) == 4: // a signed address of a file
		f.serveDatasetFile(d, parts[3])
	case operation == "GET ":
		f.sendJSON(http.StatusOK, d.describe())
	case operation == "DELETE ":
		f.sim.stored.remove(f.family, d.name)
		f.sendJSON(http.StatusOK, object{})
	case operation == "POST getUploadEndpoint":
		f.sendUploadEndpoint(d)
	case operation == "POST validateUpload":
		d.validate()
		if d.wrong != "" {
			f.refuse(statusOf, invalid("", d.wrong))
			return
		}
		f.sendJSON(http.StatusOK, object{})
	case operation == "GET getDownloadEndpoint":
		urls := object{}
		for name := range d.files {
			urls[name] = f.signedURL("/v1/" + d.name + "/" + name)
		}
		f.sendJSON(http.StatusOK, object{"filenameToSignedUrls": urls})
	default:
		f.missing()
	}
}

func (f *fireworksCall) createDataset() {
	body, ok := f.open(nil)
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "dataset", "datasetId", "sourceDatasetId")
	about := c.object(body["dataset"], "dataset")
	c.checkMembers(about, "dataset", "displayName", "evalProtocol", "evaluationResult", "exampleCount", "externalUrl", "format",
		"sourceJobName", "splitted", "transformed", "userUploaded")
	c.word(about, "format", "dataset", "FORMAT_UNSPECIFIED", "CHAT", "COMPLETION", "RL")
	c.text(about, "exampleCount", "dataset")
	d := &dataset{about: about, name: f.newName(c, "datasets", c.filled(body, "datasetId", "")), files: map[string][]byte{},
		sizes: map[string]int64{}}
	if _, exists := findRecord[*dataset](&f.sim.stored, f.family, d.name); exists {
		c.fail("datasetId", "already exists")
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	d.at, _ = stampOf(f.began).(string)
	f.sim.stored.add(f.family, d.name, len(f.in), d)
	f.sendCreated(http.StatusOK, d.describe())
}

// uploadDataset takes a file in a form.
func (f *fireworksCall) uploadDataset(d *dataset) {
	up, ok := f.readForm(f.sim.files.limit, "file")
	if !ok || !f.begin(nil) {
		return
	}
	if !up.found || int64(len(up.kept)) < up.size {
		f.refuse(statusOf, missing("file"))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[valueOr(up.name, "file")] = up.kept
	f.sim.stored.grow(f.family, d.name, len(up.kept))
	if d.validate(); d.wrong != "" {
		f.refuse(statusOf, invalid("file", d.wrong))
		return
	}
	f.sendJSON(http.StatusOK, object{})
}

func (f *fireworksCall) sendUploadEndpoint(d *dataset) {
	body, ok := f.decodeObject()
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "filenameToSize", "readMask")
	urls := object{}
	sizes := c.child(body, "filenameToSize", "")
	for _, name := range sortedNames(sizes) {
		n, err := strconv.ParseInt(textOf(sizes[name]), 10, 64)
		if err != nil || strings.ContainsAny(name, "/:") {
			c.fail("filenameToSize", "must have sizes of files by name")
		}
		d.sizes[name] = n
		urls[name] = f.signedURL("/v1/" + d.name + "/" + name)
	}
	if len(sizes) == 0 {
		c.fail("filenameToSize", "must not be empty")
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	f.sendJSON(http.StatusOK, object{"filenameToSignedUrls": urls})
}

// serveDatasetFile answers the signed address of a file.
func (f *fireworksCall) serveDatasetFile(d *dataset, name string) {
	content, ok := d.files[name]
	size, announced := d.sizes[name]
	switch {
	case f.r.Method == http.MethodGet && ok:
		f.sendBody(http.StatusOK, []string{"application/octet-stream"}, content)
	case f.r.Method != http.MethodPut || !announced:
		f.missing()
	case size != int64(len(f.in)):
		f.refuse(statusOf, invalid("", "the content has another size than was announced"))
	default:
		d.files[name] = bytes.Clone(f.in)
		f.sim.stored.grow(f.family, d.name, len(f.in)-len(content))
		f.sendBody(http.StatusOK, typeJSON, nil)
	}
}

// A namedResource is a resource in a list.
type namedResource struct {
	name     string
	describe func() any
}

// listNamed sends a page of the resources of the account.
func (f *fireworksCall) listNamed(collection string, list []namedResource) {
	query, ok := f.query("pageSize", "pageToken", "filter", "orderBy", "readMask")
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(r namedResource) bool { return !strings.HasPrefix(r.name, "accounts/"+f.account+"/") })
	page, next, wrong := pageByToken(list, query, func(r namedResource) string { return r.name })
	if wrong.kind != "" {
		f.refuse(statusOf, wrong)
		return
	}
	data := make([]any, len(page))
	for i, r := range page {
		data[i] = r.describe()
	}
	f.sendJSON(http.StatusOK, withToken(object{collection: data, "totalSize": len(list)}, next))
}
