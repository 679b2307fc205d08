package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// UnitPrices holds the prices of what is not sold by tokens.
type UnitPrices struct {
	// Images holds the prices of a generated image by quality and size, such as
	// "hd/1024x1024"; the empty name applies to all others. Nil means none.
	Images map[string]NanoDollars
	// Second is the price of a second of recorded audio. Zero means none.
	Second NanoDollars
	// Character is the price of a character to speak. Zero means none.
	Character Rate
	// Training is the price of a token that a fine-tuning job trains with. Zero means none.
	Training Rate
}

// TrainingCost returns the cost of training with a number of tokens. It is false if the price
// is unknown.
func (p *Price) TrainingCost(tokens int64) (NanoDollars, bool) {
	if p.Units == nil || p.Units.Training == 0 || tokens < 0 {
		return 0, false
	}
	var sum amount
	sum.add(tokens, int64(p.Units.Training))
	return sum.nanoDollars(100), true
}

// Units counts what a request used that is not sold by tokens.
type Units struct {
	Images        int64  // generated
	Quality, Size string // of the images, as requested; may be empty
	AudioMillis   int64  // duration of recorded audio
	Characters    int64  // to speak
}

// UnitCost returns the cost of u. It is false if nothing was used, or if the
// price of a unit that was used is unknown.
func (p *Price) UnitCost(u Units) (NanoDollars, bool) {
	prices := p.Units
	if prices == nil || u.Images+u.AudioMillis+u.Characters <= 0 {
		return 0, false
	}
	var sum amount
	if u.Images > 0 {
		price, ok := prices.image(u.Quality, u.Size)
		if !ok {
			return 0, false
		}
		sum.add(u.Images, int64(price)*pico)
	}
	if u.AudioMillis > 0 && prices.Second == 0 || u.Characters > 0 && prices.Character == 0 {
		return 0, false
	}
	sum.add(u.AudioMillis, int64(prices.Second)) // nano-dollars a second are picodollars a millisecond
	sum.add(u.Characters, int64(prices.Character))
	return sum.nanoDollars(100), true
}

// image returns the price of an image: the one for its quality and size, for
// either of them, or for all others.
func (u *UnitPrices) image(quality, size string) (price NanoDollars, ok bool) {
	for _, name := range [...]string{quality + "/" + size, quality, size} {
		if price, ok = u.Images[name]; ok && name != "" {
			return price, true
		}
	}
	price, ok = u.Images[""]
	return price, ok
}

// Dearest returns the highest price of an image. Zero means none.
func (u *UnitPrices) Dearest() (price NanoDollars) {
	for _, p := range u.Images {
		price = max(price, p)
	}
	return price
}

// times returns the prices multiplied by a factor.
func (u *UnitPrices) times(scale func(float64) int64) *UnitPrices {
	if u == nil {
		return nil
	}
	out := &UnitPrices{
		Second: NanoDollars(scale(float64(u.Second))), Character: Rate(scale(float64(u.Character))), Training: Rate(scale(float64(u.Training))),
	}
	if u.Images != nil {
		out.Images = make(map[string]NanoDollars, len(u.Images))
	}
	for name, price := range u.Images {
		out.Images[name] = min(NanoDollars(scale(float64(price))), maxImage)
	}
	return out
}

// maxImage is the maximum price of an image.
const maxImage = 1_000_000_000_000

// parseImages reads the prices of images, such as "0.04 hd=0.08": the first
// without a name is for all others.
func parseImages(text string) (map[string]NanoDollars, error) {
	images := make(map[string]NanoDollars)
	for item := range strings.FieldsSeq(text) {
		name, price, named := strings.Cut(item, "=")
		if !named {
			name, price = "", item
		}
		if _, twice := images[name]; twice {
			return nil, fmt.Errorf("the price of an image %q is duplicated", name)
		}
		n, err := decimal(price, 9)
		if err != nil || n > maxImage {
			return nil, fmt.Errorf("%q is not the price of an image", item)
		}
		images[name] = NanoDollars(n)
	}
	return images, nil
}

// appendImages appends the prices of images in the form that parseImages reads.
func appendImages(b []byte, images map[string]NanoDollars) []byte {
	names := make([]string, 0, len(images))
	for name := range images {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	for i, name := range names {
		if i > 0 {
			b = append(b, ' ')
		}
		if name != "" {
			b = append(append(b, name...), '=')
		}
		b = appendDecimal(b, int64(images[name]), 9)
	}
	return b
}
