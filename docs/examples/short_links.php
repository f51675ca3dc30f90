#!/usr/bin/php
<?php
// SPDX-License-Identifier: MIT
declare(strict_types=1);
// usage: php short_links.php create [--length N] URL...     prints a new code and its URL, for each URL
//        php short_links.php find CODE...                   prints the code and its URL, or 404
//
//   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
//   DATABASE_URL    the database with the table short_link, postgresql://...
//
// A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
// not created; try again later. Needs phpredis and PDO (Debian: php-cli, php-redis, php-pgsql).

const FILTER = 'short-link';
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
const ATTEMPTS = 100; // codes that are tried for one URL
const PATIENCE = 5.0; // seconds in which an add must be acknowledged
const ANSWER = 2.0; // seconds for one answer; a web server would wait for less
const TRY_LATER = 75; // EX_TEMPFAIL
const UNIQUE_VIOLATION = '23505';

// Twinbloom did not acknowledge the add, so the row must not be committed.
class NotAcknowledged extends Exception
{
}

// A connection to Twinbloom that is made when it is needed, and made again after an error.
class Bloom
{
    private ?Redis $redis = null;

    public function __construct(private array $url)
    {
    }

    private function connect(): Redis
    {
        $redis = new Redis();
        $redis->connect($this->url['host'], $this->url['port'] ?? 6479, ANSWER, null, 0, ANSWER);
        if (isset($this->url['pass'])) {
            $redis->auth([urldecode($this->url['user'] ?? '') ?: 'default', urldecode($this->url['pass'])]);
        }
        return $redis;
    }

    // 0 or 1. phpredis throws if there is no answer, and returns false for an error.
    public function ask(string $command, string $code): int
    {
        try {
            $this->redis ??= $this->connect();
            $answer = $this->redis->rawCommand($command, FILTER, $code);
        } catch (RedisException $e) {
            $this->redis = null; // a late answer must not be taken for the next command's
            throw $e;
        }
        if (!is_int($answer)) {
            throw new RedisException($this->redis->getLastError() ?? 'unexpected answer');
        }
        return $answer;
    }
}

// False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked.
function maybe_present(Bloom $bloom, string $code): bool
{
    try {
        return $bloom->ask('BF.EXISTS', $code) !== 0;
    } catch (RedisException) {
        return true;
    }
}

// The URL of the code, from the table; null if there is no such row.
function look_up(PDO $db, string $code): ?string
{
    $query = $db->prepare('SELECT url FROM short_link WHERE code = ?');
    $query->execute([$code]);
    return $query->fetchColumn() ?: null;
}

// The URL, or null for 404. Only codes that may be present cost a query.
// "Absent" may be trusted because every writer adds inside its transaction, as create() does. If a follower adds the
// rows instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
function find(PDO $db, Bloom $bloom, string $code): ?string
{
    return maybe_present($bloom, $code) ? look_up($db, $code) : null;
}

// Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm.
function add(Bloom $bloom, string $code): void
{
    $until = hrtime(true) / 1e9 + PATIENCE;
    for ($pause = 0.05;; $pause = min(2 * $pause, 1.0)) {
        try {
            $bloom->ask('BF.ADD', $code);
            return;
        } catch (RedisException $e) {
            if (hrtime(true) / 1e9 + $pause > $until) {
                throw new NotAcknowledged($e->getMessage(), previous: $e);
            }
        }
        usleep((int) ($pause * 1e6));
    }
}

// One transaction, with the add inside. False: the code is taken.
function insert(PDO $db, Bloom $bloom, string $code, string $url): bool
{
    $db->beginTransaction();
    try {
        $db->prepare('INSERT INTO short_link (code, url) VALUES (?, ?)')->execute([$code, $url]);
        add($bloom, $code);
        $db->commit();
        return true;
    } catch (Exception $e) {
        $db->rollBack();
        if ($e instanceof PDOException && $e->getCode() === UNIQUE_VIOLATION) {
            return false;
        }
        throw $e;
    }
}

function create(PDO $db, Bloom $bloom, string $url, int $length): string
{
    for ($attempt = 0; $attempt < ATTEMPTS; $attempt++) {
        $code = '';
        while (strlen($code) < $length) {
            $code .= LETTERS[random_int(0, strlen(LETTERS) - 1)];
        }
        if (maybe_present($bloom, $code) && look_up($db, $code) !== null) {
            continue;
        }
        if (insert($db, $bloom, $code, $url)) {
            return $code;
        }
        // The code has a row, but if the filter denies it, its writer did not add it.
        if (!maybe_present($bloom, $code)) {
            add($bloom, $code);
        }
    }
    throw new RuntimeException(ATTEMPTS . " codes of $length letters were taken; use longer codes");
}

function connect_database(string $url): PDO
{
    $u = parse_url($url);
    $dsn = "pgsql:host=$u[host];port=" . ($u['port'] ?? 5432) . ';dbname=' . ltrim($u['path'] ?? '', '/');
    // Exceptions are PDO's way to report errors since PHP 8.
    return new PDO($dsn, urldecode($u['user'] ?? ''), urldecode($u['pass'] ?? ''));
}

function main(array $arguments): int
{
    $command = array_shift($arguments);
    $length = 7;
    if ($command === 'create' && ($arguments[0] ?? '') === '--length') {
        $length = (int) ($arguments[1] ?? 0);
        $arguments = array_slice($arguments, 2);
    }
    if (!in_array($command, ['create', 'find'], true) || $arguments === [] || $length < 1) {
        fwrite(STDERR, "usage: php short_links.php create [--length N] URL... | find CODE...\n");
        return 2;
    }
    $bloom = new Bloom(parse_url(getenv('TWINBLOOM_URL')));
    try {
        $db = connect_database(getenv('DATABASE_URL'));
        foreach ($arguments as $argument) {
            echo $command === 'create'
                ? create($db, $bloom, $argument, $length) . "\t$argument\n"
                : "$argument\t" . (find($db, $bloom, $argument) ?? 404) . "\n";
        }
    } catch (NotAcknowledged $e) {
        fwrite(STDERR, "short_links: Twinbloom did not acknowledge the add: {$e->getMessage()}\n");
        return TRY_LATER;
    } catch (Exception $e) {
        fwrite(STDERR, "short_links: {$e->getMessage()}\n");
        return 1;
    }
    return 0;
}

exit(main(array_slice($argv, 1)));
