#!/usr/bin/ruby
# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# usage: short_links.rb create [--length N] URL...     prints a new code and its URL, for each URL
#        short_links.rb find CODE...                   prints the code and its URL, or 404
#
#   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
#   DATABASE_URL    the database with the table short_link, postgresql://...
#
# A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
# not created; try again later. Needs redis-rb and pg (Debian: ruby-redis, ruby-pg).

require 'pg'
require 'redis'
require 'securerandom'

FILTER = 'short-link'
LETTERS = [*'a'..'z', *'A'..'Z', *'0'..'9'].freeze
ATTEMPTS = 100 # codes that are tried for one URL
PATIENCE = 5.0 # seconds in which an add must be acknowledged
ANSWER = 2.0 # seconds for one answer; a web server would wait for less
TRY_LATER = 75 # EX_TEMPFAIL

# Twinbloom did not acknowledge the add, so the row must not be committed.
class NotAcknowledged < StandardError; end

# False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked.
def maybe_present?(bloom, code)
  bloom.call('BF.EXISTS', FILTER, code) != 0
rescue Redis::BaseError
  true
end

# The URL of the code, from the table; nil if there is no such row.
def look_up(db, code)
  db.exec_params('SELECT url FROM short_link WHERE code = $1', [code]).first&.fetch('url')
end

# The URL, or nil for 404. Only codes that may be present cost a query.
# "Absent" may be trusted because every writer adds inside its transaction, as create does. If a follower adds the rows
# instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
def find(db, bloom, code)
  look_up(db, code) if maybe_present?(bloom, code)
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm.
def add(bloom, code)
  deadline = now + PATIENCE
  pause = 0.05
  begin
    bloom.call('BF.ADD', FILTER, code)
  rescue Redis::BaseError => e
    raise NotAcknowledged, e.message if now + pause > deadline

    sleep pause
    pause = [2 * pause, 1.0].min
    retry
  end
end

# One transaction, with the add inside. False: the code is taken.
def insert(db, bloom, code, url)
  db.transaction do # commits at its end, rolls back after an exception
    db.exec_params('INSERT INTO short_link (code, url) VALUES ($1, $2)', [code, url])
    add(bloom, code)
  end
  true
rescue PG::UniqueViolation
  false
end

def create(db, bloom, url, length)
  ATTEMPTS.times do
    code = Array.new(length) { LETTERS.sample(random: SecureRandom) }.join
    next if maybe_present?(bloom, code) && look_up(db, code)
    return code if insert(db, bloom, code, url)

    # The code has a row, but if the filter denies it, its writer did not add it.
    add(bloom, code) unless maybe_present?(bloom, code)
  end
  abort "short_links: #{ATTEMPTS} codes of #{length} letters were taken; use longer codes"
end

command = ARGV.shift
length = 7
if command == 'create' && ARGV.first == '--length'
  ARGV.shift
  length = ARGV.shift.to_i
end
if !%w[create find].include?(command) || ARGV.empty? || length < 1
  warn 'usage: short_links.rb create [--length N] URL... | find CODE...'
  exit 2
end

$stdout.sync = true
bloom = Redis.new(url: ENV.fetch('TWINBLOOM_URL'), connect_timeout: ANSWER, timeout: ANSWER, reconnect_attempts: 0)
db = PG.connect(ENV.fetch('DATABASE_URL'))
begin
  ARGV.each do |argument|
    if command == 'create'
      puts "#{create(db, bloom, argument, length)}\t#{argument}"
    else
      puts "#{argument}\t#{find(db, bloom, argument) || 404}"
    end
  end
rescue NotAcknowledged => e
  warn "short_links: Twinbloom did not acknowledge the add: #{e.message}"
  exit TRY_LATER
end
