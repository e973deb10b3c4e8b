// Verifies token.txt, an SD-JWT VC, with the keys in issuer.json, and prints what it discloses.
import {createHash, createPublicKey, verify} from 'node:crypto';
import {readFile} from 'node:fs/promises';
import {SDJwtVcInstance} from '@sd-jwt/sd-jwt-vc';

const [token, {issuer, jwks}] = [await readFile('token.txt', 'utf8'), JSON.parse(await readFile('issuer.json', 'utf8'))];
const {kid, typ} = JSON.parse(Buffer.from(token.split('.')[0], 'base64url'));
const instance = new SDJwtVcInstance({
  hasher: (data, algorithm) => createHash(algorithm.replace('-', '')).update(data).digest(),
  verifier: async (data, signature) => {
    const key = createPublicKey({key: jwks.keys.find(each => each.kid === kid), format: 'jwk'});
    return verify(null, Buffer.from(data), key, Buffer.from(signature, 'base64url'));
  },
});
try {
  const {payload} = await instance.verify(token);
  if(payload.iss !== issuer || typ !== 'dc+sd-jwt') {
    throw new Error('another issuer or type');
  }
  console.log(JSON.stringify(payload));
} catch(error) {
  console.error(error);
  process.exit(1);
}
