// SPDX-License-Identifier: MIT

// usage: short_links create [--length N] URL...     prints a new code and its URL, for each URL
//
//	short_links find CODE...                   prints the code and its URL, or 404
//
//	TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
//	DATABASE_URL    the database with the table short_link, postgresql://...
//
// A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
// not created; try again later. Needs redigo and pq (Debian: golang-github-gomodule-redigo-dev,
// golang-github-lib-pq-dev).
package main

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/lib/pq"
)

const (
	filter          = "short-link"
	letters         = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	attempts        = 100             // codes that are tried for one URL
	patience        = 5 * time.Second // in which an add must be acknowledged
	answer          = 2 * time.Second // for one answer; a web server would wait for less
	tryLater        = 75              // EX_TEMPFAIL
	uniqueViolation = "23505"
)

// errNotAcknowledged: Twinbloom did not acknowledge the add, so the row must not be committed.
var errNotAcknowledged = errors.New("Twinbloom did not acknowledge the add")

type links struct {
	db    *sql.DB
	bloom *redis.Pool
}

// ask sends one command. The answer is 0 or 1.
func (l *links) ask(command, code string) (int, error) {
	conn := l.bloom.Get()
	defer conn.Close() // the pool drops a connection that had an error
	return redis.Int(conn.Do(command, filter, code))
}

// maybePresent: false is certainly absent. True is maybe present, or Twinbloom gave no answer: the table must be asked.
func (l *links) maybePresent(code string) bool {
	present, err := l.ask("BF.EXISTS", code)
	return err != nil || present != 0
}

// lookUp returns the URL of the code from the table, or sql.ErrNoRows.
func (l *links) lookUp(code string) (url string, err error) {
	err = l.db.QueryRow("SELECT url FROM short_link WHERE code = $1", code).Scan(&url)
	return url, err
}

// find returns the URL, or sql.ErrNoRows for 404. Only codes that may be present cost a query.
//
// "Absent" may be trusted because every writer adds inside its transaction, as create does. If a follower adds the rows
// instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
func (l *links) find(code string) (string, error) {
	if !l.maybePresent(code) {
		return "", sql.ErrNoRows
	}
	return l.lookUp(code)
}

// add adds until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm.
func (l *links) add(code string) error {
	until := time.Now().Add(patience)
	for pause := 50 * time.Millisecond; ; {
		_, err := l.ask("BF.ADD", code)
		if err == nil {
			return nil
		}
		if time.Now().Add(pause).After(until) {
			return fmt.Errorf("%w: %v", errNotAcknowledged, err)
		}
		time.Sleep(pause)
		if pause *= 2; pause > time.Second {
			pause = time.Second
		}
	}
}

// insert is one transaction, with the add inside. False: the code is taken.
func (l *links) insert(code, url string) (bool, error) {
	tx, err := l.db.Begin()
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // does nothing after a commit
	_, err = tx.Exec("INSERT INTO short_link (code, url) VALUES ($1, $2)", code, url)
	var refused *pq.Error
	if errors.As(err, &refused) && refused.Code == uniqueViolation {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err = l.add(code); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func pick(length int) (string, error) {
	code := make([]byte, length)
	for i := range code {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", err
		}
		code[i] = letters[n.Int64()]
	}
	return string(code), nil
}

func (l *links) create(url string, length int) (string, error) {
	for i := 0; i < attempts; i++ {
		code, err := pick(length)
		if err != nil {
			return "", err
		}
		if l.maybePresent(code) {
			if _, err = l.lookUp(code); err == nil {
				continue
			}
		}
		created, err := l.insert(code, url)
		if created || err != nil {
			return code, err
		}
		// The code has a row, but if the filter denies it, its writer did not add it.
		if !l.maybePresent(code) {
			if err = l.add(code); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("%d codes of %d letters were taken; use longer codes", attempts, length)
}

func (l *links) run(command, argument string, length int) error {
	if command == "create" {
		code, err := l.create(argument, length)
		if err == nil {
			fmt.Printf("%s\t%s\n", code, argument)
		}
		return err
	}
	url, err := l.find(argument)
	if errors.Is(err, sql.ErrNoRows) {
		url, err = "404", nil
	}
	if err == nil {
		fmt.Printf("%s\t%s\n", argument, url)
	}
	return err
}

func main() {
	usage := func() {
		fmt.Fprintln(os.Stderr, "usage: short_links create [--length N] URL... | find CODE...")
		os.Exit(2)
	}
	if len(os.Args) < 2 || os.Args[1] != "create" && os.Args[1] != "find" {
		usage()
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	length := flags.Int("length", 7, "letters of a code")
	flags.Parse(os.Args[2:])
	if flags.NArg() == 0 || *length < 1 {
		usage()
	}
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	l := links{db: db, bloom: &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.DialURL(os.Getenv("TWINBLOOM_URL"), redis.DialConnectTimeout(answer),
			redis.DialReadTimeout(answer), redis.DialWriteTimeout(answer))
	}}}
	for i := 0; err == nil && i < flags.NArg(); i++ {
		err = l.run(os.Args[1], flags.Arg(i), *length)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "short_links:", err)
	}
	if errors.Is(err, errNotAcknowledged) {
		os.Exit(tryLater)
	}
	if err != nil {
		os.Exit(1)
	}
}
