package config

import (
	"slices"
	"strings"
)

// didYouMean is a hint that names the word nearest to a misspelled one, or ""
// when none is near.
func didYouMean(word string, known []string) string {
	best, least := "", 1+max(1, 2*len(word)/5)
	for _, candidate := range known {
		// A key of megabytes is not a misspelling and must not cost its square.
		if len(word) > 2*len(candidate)+2 {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + short(best) + "?"
}

// distance is the Levenshtein distance of two words, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// listed is the words as a sentence has them: a, b, c.
func listed(words []string) string {
	words = slices.Clone(words)
	for i, w := range words {
		words[i] = short(w)
	}
	return strings.Join(words, ", ")
}
