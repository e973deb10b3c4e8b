// Checks a log with Go's own implementation (golang.org/x/mod/sumdb), which shares no code with Tonne.
//
// Input, as JSON on standard input: the URL and the verifier key of the log, two of its checkpoints, the consistency
// proof between them, and inclusion proofs with their entries. Output: what was checked, one line each.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type input struct {
	URL         string
	Key         string
	Older       string
	Newer       string
	Consistency []tlog.Hash
	Proofs      []struct {
		Entry string
		Proof string
	}
}

const height = 8

// tiles reads tiles over HTTP. The paths of c2sp.org/tlog-tiles lack the height that Go's checksum database has.
type tiles struct{ url string }

func (t tiles) Height() int                                { return height }
func (t tiles) SaveTiles(tiles []tlog.Tile, data [][]byte) {}
func (t tiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		content, err := fetch(t.url + "/" + strings.Replace(path, "tile/data/", "tile/entries/", 1))
		if err != nil {
			return nil, err
		}
		data = append(data, content)
	}
	return data, nil
}

func fetch(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// open verifies a checkpoint. Signatures of witnesses are of a type that this library does not know: it skips them.
func open(text string, key string) tlog.Tree {
	verifier, err := note.NewVerifier(key)
	refuse("verifier key", err)
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	refuse("checkpoint", err)
	lines := strings.Split(opened.Text, "\n")
	if lines[0] != verifier.Name() {
		refuse("origin", fmt.Errorf("%q is not %q", lines[0], verifier.Name()))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	refuse("size", err)
	root, err := tlog.ParseHash(lines[2])
	refuse("root", err)
	return tlog.Tree{N: size, Hash: root}
}

func refuse(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func same(left, right []tlog.Hash) bool {
	return fmt.Sprint(left) == fmt.Sprint(right)
}

func checkProof(log input, entry string, proof string) {
	head, checkpoint, _ := strings.Cut(proof, "\n\n")
	lines := strings.Split(head, "\n")
	if lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		refuse("proof", fmt.Errorf("it begins with %q", lines[:2]))
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	refuse("index", err)
	hashes := tlog.RecordProof{}
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		refuse("hash of a proof", err)
		hashes = append(hashes, hash)
	}
	tree := open(checkpoint, log.Key)
	data, err := base64.StdEncoding.DecodeString(entry)
	refuse("entry", err)
	refuse("inclusion", tlog.CheckRecord(hashes, tree.N, tree.Hash, index, tlog.RecordHash(data)))
	// The reader verifies every tile against the root.
	own, err := tlog.ProveRecord(tree.N, index, tlog.TileHashReader(tree, tiles{log.URL}))
	refuse("inclusion from tiles", err)
	if !same(own, hashes) {
		refuse("inclusion", fmt.Errorf("the proof from the tiles is another one"))
	}
	fmt.Printf("entry %d is in the tree of %d\n", index, tree.N)
}

// checkEntries hashes all entries of the log and compares them with the leaves of the tree.
func checkEntries(log input, tree tlog.Tree) {
	reader := tlog.TileHashReader(tree, tiles{log.URL})
	count := int64(0)
	for count < tree.N {
		tile := tlog.Tile{H: height, L: -1, N: count >> height, W: 1 << height}
		if left := tree.N - count; left < 1<<height {
			tile.W = int(left)
		}
		read, err := tiles{log.URL}.ReadTiles([]tlog.Tile{tile})
		refuse("entries", err)
		bundle := bytes.NewReader(read[0])
		for bundle.Len() > 0 {
			var length uint16
			refuse("length of an entry", binary.Read(bundle, binary.BigEndian, &length))
			entry := make([]byte, length)
			_, err := io.ReadFull(bundle, entry)
			refuse("entry", err)
			leaf, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, count)})
			refuse("leaf", err)
			if leaf[0] != tlog.RecordHash(entry) {
				refuse("entry", fmt.Errorf("entry %d is not the one in the tree", count))
			}
			count++
		}
	}
	fmt.Printf("all %d entries are in the tree\n", count)
}

func main() {
	var log input
	refuse("input", json.NewDecoder(os.Stdin).Decode(&log))
	older, newer := open(log.Older, log.Key), open(log.Newer, log.Key)
	refuse("consistency", tlog.CheckTree(log.Consistency, newer.N, newer.Hash, older.N, older.Hash))
	own, err := tlog.ProveTree(newer.N, older.N, tlog.TileHashReader(newer, tiles{log.URL}))
	refuse("consistency from tiles", err)
	if !same(own, log.Consistency) {
		refuse("consistency", fmt.Errorf("the proof from the tiles is another one"))
	}
	fmt.Printf("the tree of %d contains the tree of %d\n", newer.N, older.N)
	for _, each := range log.Proofs {
		checkProof(log, each.Entry, each.Proof)
	}
	served, err := fetch(log.URL + "/checkpoint")
	refuse("served checkpoint", err)
	checkEntries(log, open(string(served), log.Key))
}
