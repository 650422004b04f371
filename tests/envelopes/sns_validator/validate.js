// Reads envelopes as a JSON list of texts, and writes for each what sns-validator says: null, or its error.
// The first argument is the pattern of the hosts that certificates may come from.
'use strict';

const MessageValidator = require('sns-validator');

const validator = new MessageValidator(new RegExp(process.argv[2]));

function complaintAbout(envelope) {
  return new Promise((resolve) => validator.validate(envelope, (error) => resolve(error ? error.message : null)));
}

async function main() {
  const envelopes = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const complaints = [];
  for (const envelope of envelopes) {
    complaints.push(await complaintAbout(envelope));
  }
  process.stdout.write(JSON.stringify(complaints));
}

main();
