package server

import (
	"encoding/json"
	"net/http"
	"net/url"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/pricing"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
)

// PriceFiles says where files with prices and capabilities of providers are read.
// Empty fields are not read.
type PriceFiles struct {
	Proxy *url.URL

	// Folders in the file store of the settings.
	PricingLogStore, CapabilitiesLogStore string

	// Folders on this host.
	PricingLocal, CapabilitiesLocal string
}

// openPrices creates the keeper of price files, which starts with Run.
func (s *Server) openPrices(set *settings.Settings) error {
	k := &pricing.Keeper{Logger: s.Logger, Now: s.Time}
	for _, kind := range [...]struct {
		name            string
		logStore, local string
		sources         *[]pricing.Source
	}{
		{"pricing", s.PriceFiles.PricingLogStore, s.PriceFiles.PricingLocal, &k.Prices},
		{"general", s.PriceFiles.CapabilitiesLogStore, s.PriceFiles.CapabilitiesLocal, &k.Capabilities},
	} {
		if s.PriceFiles.Proxy != nil {
			*kind.sources = append(*kind.sources, pricing.Proxy(s.PriceFiles.Proxy, kind.name,
				func(r *http.Request) (*http.Response, error) { return s.engine.Client.Do(r, false) }))
		}
		if kind.logStore != "" {
			files, err := s.openFiles(&set.Blob, "")
			if err != nil {
				return err
			}
			*kind.sources = append(*kind.sources, pricing.LogStore(files, kind.logStore))
		}
		if kind.local != "" {
			*kind.sources = append(*kind.sources, pricing.Local(kind.local))
		}
	}
	k.Changed = func() {
		if err := s.publish(nil, nil); err != nil {
			s.Logger.Error("publishing changed prices failed; keeping the previous snapshot", "err", err.Error())
		}
	}
	s.prices = k
	return nil
}

// addPrices adds prices and lists of models from files to the input of a snapshot.
func (s *Server) addPrices(in *snapshot.Input) {
	in.Book, in.Listed = s.prices.Book(catalog.Builtin()), s.prices.Models()
}

// priceFiles shows the state of the price files.
func (s *Server) priceFiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Object string           `json:"object"`
		Data   []pricing.Status `json:"data"`
	}{"list", s.prices.Status()})
}
