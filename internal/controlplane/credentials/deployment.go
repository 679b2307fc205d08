package credentials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

const maxDeployments = 100

// readDeployments reads the deployments of an Azure resource. Names of fields may have the
// prefix of the cloud, and may be in camel case.
func (r *reader) readDeployments(path string, raw json.RawMessage) error {
	var list []Fields
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > maxDeployments {
		return route.Invalid(path, "must be an array of 1 to %d objects", maxDeployments)
	}
	var defaults, aliases = 0, make(map[string]bool)
	for i, fields := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		d, err := readDeployment(at, r.spec.OptionPrefix, fields)
		if err != nil {
			return err
		}
		if d.Default {
			defaults++
		}
		if defaults > 1 {
			return route.Invalid(at+".is_default", "is already true for another entry")
		}
		if d.Alias != "" && aliases[d.Alias] {
			return route.Invalid(at+".alias", "is already used by another entry")
		}
		aliases[d.Alias] = true
		r.out.Configuration.Deployments = append(r.out.Configuration.Deployments, d)
	}
	return nil
}

func readDeployment(path, prefix string, fields Fields) (d store.Deployment, err error) {
	for given, raw := range fields {
		if isNull(raw) {
			continue
		}
		at, name := path+"."+clip(given), strings.TrimPrefix(provider.SnakeCase(given), prefix)
		switch name {
		case "alias":
			err = text(at, raw, 255, &d.Alias)
		case "deployment_name":
			err = text(at, raw, 255, &d.Name)
		case "api_version":
			err = text(at, raw, 30, &d.APIVersion)
		case "model_slug":
			err = text(at, raw, 255, &d.Model)
		case "is_default":
			if json.Unmarshal(raw, &d.Default) != nil {
				err = route.Invalid(at, "must be true or false")
			}
		default:
			err = route.Invalid(at, "is not a field of a deployment")
		}
		if err != nil {
			return d, err
		}
	}
	if d.Name == "" {
		return d, route.Invalid(path+"."+prefix+"deployment_name", "is required")
	}
	return d, nil
}

func text(path string, raw json.RawMessage, most int, into *string) error {
	if json.Unmarshal(raw, into) != nil || len(*into) > most || strings.ContainsFunc(*into, unicode.IsControl) {
		return route.Invalid(path, "must be a string of at most %d bytes", most)
	}
	return nil
}

// modelFields are the settings that a model of an integration may override.
type modelFields struct {
	CustomHost    string            `json:"custom_host"`
	CustomHeaders map[string]string `json:"custom_headers"`
}

// decodeStrictly decodes JSON and rejects fields that v does not have.
func decodeStrictly(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
