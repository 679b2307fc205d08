package peer

import (
	"sync"
	"time"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/provider/toolserver/openapi"
)

// maxAPIMemory is the limit of the memory for documents of APIs, in bytes.
const maxAPIMemory = 256 << 20

// apiDocuments are the documents of servers, read when they are used first. It is safe for
// concurrent use.
type apiDocuments struct {
	mu    sync.Mutex
	byID  map[string]*apiDocument // by id of the server; guarded by mu
	total int64                   // weight of the documents; guarded by mu
	limit int64                   // of total
}

// apiDocument is the document of a server. It is read once.
type apiDocument struct {
	organisation, text string
	used               time.Time // guarded by the lock of the documents
	weight             int64     // about the bytes that it takes; guarded by the lock of the documents

	read sync.Once
	doc  *openapi.Document
	err  error
}

func newAPIDocuments(limit int64) *apiDocuments {
	return &apiDocuments{byID: make(map[string]*apiDocument), limit: limit}
}

// of returns the document of a server.
func (a *apiDocuments) of(s *toolserver.Server) (*openapi.Document, *Failure) {
	a.mu.Lock()
	d := a.byID[s.ID]
	if d == nil || d.text != s.Document {
		a.remove(s.ID)
		d = &apiDocument{organisation: s.Organisation, text: s.Document}
		a.byID[s.ID] = d
		a.weigh(s.ID, d, int64(len(d.text)))
	}
	d.used = time.Now()
	a.mu.Unlock()
	d.read.Do(func() {
		d.doc, d.err = openapi.Parse([]byte(d.text))
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.byID[s.ID] == d {
			a.weigh(s.ID, d, d.size())
		}
	})
	if d.err != nil {
		return nil, &Failure{Kind: Unavailable, Unsent: true, Reason: "the document of the tool server cannot be read; set it again in its integration",
			Err: d.err}
	}
	return d.doc, nil
}

// size returns about the bytes that a document takes once it is read: parameters have more in
// memory than in definitions.
func (d *apiDocument) size() int64 {
	size := int64(len(d.text))
	if d.doc != nil {
		for _, t := range d.doc.Tools {
			size += 1024 + 4*int64(len(t.Definition))
		}
	}
	return size
}

// weigh counts what a document takes. While all of them weigh too much, it removes others: those of
// the organisation whose documents weigh the most, the one first that was not used for the longest
// time. The caller holds mu.
func (a *apiDocuments) weigh(id string, d *apiDocument, weight int64) {
	a.total += weight - d.weight
	d.weight = weight
	for a.total > a.limit {
		weights, heaviest := make(map[string]int64), ""
		for key, other := range a.byID {
			if key != id {
				weights[other.organisation] += other.weight
			}
		}
		for organisation, weight := range weights {
			if heaviest == "" || weight > weights[heaviest] {
				heaviest = organisation
			}
		}
		oldest := ""
		for key, other := range a.byID {
			if other.organisation == heaviest && key != id && (oldest == "" || other.used.Before(a.byID[oldest].used)) {
				oldest = key
			}
		}
		if oldest == "" {
			return
		}
		a.remove(oldest)
	}
}

// remove forgets a document. The caller holds mu.
func (a *apiDocuments) remove(id string) {
	if d := a.byID[id]; d != nil {
		a.total -= d.weight
		delete(a.byID, id)
	}
}
