#!/usr/bin/perl
# SPDX-License-Identifier: MIT
# usage: openapi.pl FILE
# FILE must be a valid OpenAPI 3.0 document: status 1, and what is wrong with it, where it is not.
use strict;
use warnings;
use JSON::Validator;

my $schema = JSON::Validator->new->schema($ARGV[0])->schema;
die "$ARGV[0]: is not OpenAPI 3.0\n" unless $schema->isa('JSON::Validator::Schema::OpenAPIv3');
print "$ARGV[0]: $_\n" for @{$schema->errors};
exit(@{$schema->errors} ? 1 : 0);
