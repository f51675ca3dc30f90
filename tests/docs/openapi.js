// SPDX-License-Identifier: MIT
// usage: openapi.js FILE
// FILE must be a valid OpenAPI 3.0 document: status 1, and what is wrong with it, where it is not; 77 without the library.
'use strict';

async function main(file) {
  let library;
  try {
    library = require.resolve('@seriousme/openapi-schema-validator');
  } catch {
    console.log('skipped: tests/clients/install has not installed the library');
    return 77;
  }
  const { Validator } = await import(library);
  const validator = new Validator();
  const { valid, errors } = await validator.validate(file);
  if (!valid) console.log(`${file}: ${JSON.stringify(errors, null, 2)}`);
  else if (validator.version !== '3.0') console.log(`${file}: is of version ${validator.version}, not of 3.0`);
  return valid && validator.version === '3.0' ? 0 : 1;
}

main(process.argv[2]).then((status) => process.exit(status));
