//! [`DeviceKey`], a device's Ed25519 key, and [`verify`], which checks what it signed.
//!
//! The signature covers the client, its role, scopes and token, and the gateway's nonce. A proof
//! that an attacker recorded is therefore useless on another connection or with other claims.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};
use zero_core::hexadecimal::to_hex;

use crate::handshake::{ClientId, ClientInfo, ClientMode, DeviceProof};

/// Maximum difference between the clocks of the device and the gateway, in milliseconds.
pub const SKEW_MS_MAX: u64 = 10 * 60 * 1000;

/// The private key of a device. It has no `Debug` and is never printed.
pub struct DeviceKey {
    pair: Ed25519KeyPair,
}

/// The stored key is invalid, or a new one cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("the device key is damaged; remove it, and zero creates a new one at the next start")]
pub struct DeviceKeyError;

impl DeviceKey {
    /// Creates a key, and returns it with the secret PKCS #8 bytes to store.
    pub fn generate() -> Result<(Self, Vec<u8>), DeviceKeyError> {
        let document =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| DeviceKeyError)?;
        let key = Self::from_pkcs8(document.as_ref())?;
        Ok((key, document.as_ref().to_vec()))
    }

    /// Reads a key from its PKCS #8 bytes.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, DeviceKeyError> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).map_err(|_| DeviceKeyError)?;
        Ok(Self { pair })
    }

    /// Returns the id of the device: SHA-256 of the raw public key, in hexadecimal.
    pub fn id(&self) -> String {
        device_id(self.pair.public_key().as_ref())
    }

    /// Signs a challenge.
    pub fn prove(&self, context: &ChallengeContext<'_>) -> DeviceProof {
        let id = self.id();
        let text = context.signed_text(SignedForm::V3, &id, context.signed_at);
        DeviceProof {
            id,
            public_key: URL_SAFE_NO_PAD.encode(self.pair.public_key()),
            signature: URL_SAFE_NO_PAD.encode(self.pair.sign(text.as_bytes())),
            signed_at: context.signed_at,
            nonce: context.nonce.to_owned(),
        }
    }
}

/// What a device signs, besides its id.
#[derive(Clone, Copy)]
pub struct ChallengeContext<'a> {
    /// Identifier of the client program.
    pub client_id: ClientId,
    /// How the program is used.
    pub client_mode: ClientMode,
    /// Always `operator`.
    pub role: &'a str,
    /// The scopes that the client requests.
    pub scopes: &'a [String],
    /// The time of the challenge, in milliseconds since 1970.
    pub signed_at: i64,
    /// The token; empty if there is none. A password is not signed.
    pub token: &'a str,
    /// The nonce of the challenge.
    pub nonce: &'a str,
    /// Operating system.
    pub platform: &'a str,
    /// Kind of machine; empty if unknown.
    pub device_family: &'a str,
}

impl<'a> ChallengeContext<'a> {
    /// Creates the context of a client that connects, without a challenge.
    pub fn from_client(
        client: &'a ClientInfo,
        role: &'a str,
        scopes: &'a [String],
        token: &'a str,
    ) -> Self {
        Self {
            client_id: client.id,
            client_mode: client.mode,
            role,
            scopes,
            signed_at: 0,
            token,
            nonce: "",
            platform: &client.platform,
            device_family: client.device_family.as_deref().unwrap_or_default(),
        }
    }

    /// Adds the nonce and the time of a challenge.
    #[must_use]
    pub fn with_challenge(self, nonce: &'a str, ts: i64) -> Self {
        Self { nonce, signed_at: ts, ..self }
    }

    fn signed_text(&self, form: SignedForm, id: &str, signed_at: i64) -> String {
        let (client, mode) = (self.client_id.as_str(), self.client_mode.as_str());
        let Self { role, token, nonce, .. } = self;
        let scopes = self.scopes.join(",");
        let common = format!("{id}|{client}|{mode}|{role}|{scopes}|{signed_at}|{token}|{nonce}");
        match form {
            SignedForm::V2 => format!("v2|{common}"),
            SignedForm::V3 => {
                let platform = self.platform.trim().to_ascii_lowercase();
                let family = self.device_family.trim().to_ascii_lowercase();
                format!("v3|{common}|{platform}|{family}")
            }
        }
    }

    /// Whether a part contains a separator, so that the signed text could be read in two ways. The
    /// token may contain one: the nonce that follows it is the gateway's own and cannot be guessed.
    fn is_ambiguous(&self) -> bool {
        let joined = [self.role, self.nonce, self.platform, self.device_family];
        joined.iter().any(|part| part.contains('|'))
            || self.scopes.iter().any(|scope| scope.contains(['|', ',']))
    }
}

/// Why a proof was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceProofError {
    /// The public key is not an Ed25519 key in base64url.
    #[error("device public key invalid; send the 32 raw bytes in base64url")]
    PublicKey,
    /// The id does not belong to the public key.
    #[error("device id mismatch; it is the SHA-256 of the raw public key, in hexadecimal")]
    Id,
    /// The nonce is not the one of this connection.
    #[error("device nonce mismatch; sign the nonce of this connection's challenge")]
    Nonce,
    /// It was signed too long ago, or in the future.
    #[error("device signature expired; sign the time of this connection's challenge")]
    Time,
    /// The signature is by another key or over another text.
    #[error("device signature invalid; sign the values that are sent, in the protocol's order")]
    Signature,
}

impl DeviceProofError {
    /// Returns `details.code` of the error.
    pub fn code(self) -> &'static str {
        match self {
            Self::PublicKey => "DEVICE_AUTH_PUBLIC_KEY_INVALID",
            Self::Id => "DEVICE_AUTH_DEVICE_ID_MISMATCH",
            Self::Nonce => "DEVICE_AUTH_NONCE_MISMATCH",
            Self::Time => "DEVICE_AUTH_SIGNATURE_EXPIRED",
            Self::Signature => "DEVICE_AUTH_SIGNATURE_INVALID",
        }
    }

    /// Returns `details.reason` of the error.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PublicKey => "device-public-key",
            Self::Id => "device-id-mismatch",
            Self::Nonce => "device-nonce-mismatch",
            Self::Time => "device-signature-stale",
            Self::Signature => "device-signature",
        }
    }
}

/// Checks that a device signed this challenge. `protocol` is the version of the connection: only
/// version 3 accepts signatures without the platform and the device family.
pub fn verify(
    proof: &DeviceProof,
    context: &ChallengeContext<'_>,
    protocol: u32,
) -> Result<(), DeviceProofError> {
    let public_key = decode::<32>(&proof.public_key).ok_or(DeviceProofError::PublicKey)?;
    if device_id(&public_key) != proof.id {
        return Err(DeviceProofError::Id);
    }
    if context.nonce.is_empty() || proof.nonce != context.nonce {
        return Err(DeviceProofError::Nonce);
    }
    if proof.signed_at.abs_diff(context.signed_at) > SKEW_MS_MAX {
        return Err(DeviceProofError::Time);
    }
    let signature = decode::<64>(&proof.signature).ok_or(DeviceProofError::Signature)?;
    if context.is_ambiguous() {
        return Err(DeviceProofError::Signature);
    }
    let forms: &[SignedForm] =
        if protocol == 3 { &[SignedForm::V3, SignedForm::V2] } else { &[SignedForm::V3] };
    let key = UnparsedPublicKey::new(&ED25519, public_key);
    let is_signed = |form: &SignedForm| {
        let text = context.signed_text(*form, &proof.id, proof.signed_at);
        key.verify(text.as_bytes(), &signature).is_ok()
    };
    if forms.iter().any(is_signed) { Ok(()) } else { Err(DeviceProofError::Signature) }
}

/// Format of the signed text; `V3` includes the platform and the device family.
#[derive(Clone, Copy)]
enum SignedForm {
    V2,
    V3,
}

fn device_id(public_key: &[u8]) -> String {
    to_hex(&Sha256::digest(public_key))
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proof that an OpenClaw client sent, with its signature.
    const RECORDED: &str = include_str!("../tests/fixtures/device.json");

    struct RecordedProof {
        proof: DeviceProof,
        scopes: Vec<String>,
        token: String,
    }

    impl RecordedProof {
        fn read() -> Self {
            let recorded: serde_json::Value = serde_json::from_str(RECORDED).unwrap();
            let text = |name: &str| recorded[name].as_str().unwrap().to_owned();
            let payload = text("payload");
            let parts: Vec<&str> = payload.split('|').collect();
            let [
                "v3",
                id,
                "cli",
                "cli",
                "operator",
                scopes,
                signed_at,
                token,
                nonce,
                "linux",
                "linux",
            ] = parts[..]
            else {
                panic!("{payload}");
            };
            assert_eq!(id, text("deviceId"));
            Self {
                proof: DeviceProof {
                    id: id.to_owned(),
                    public_key: text("publicKey"),
                    signature: text("signature"),
                    signed_at: signed_at.parse().unwrap(),
                    nonce: nonce.to_owned(),
                },
                scopes: vec![scopes.to_owned()],
                token: token.to_owned(),
            }
        }

        fn context(&self) -> ChallengeContext<'_> {
            ChallengeContext {
                client_id: ClientId::Cli,
                client_mode: ClientMode::Cli,
                role: "operator",
                scopes: &self.scopes,
                signed_at: self.proof.signed_at,
                token: &self.token,
                nonce: &self.proof.nonce,
                platform: "linux",
                device_family: "Linux",
            }
        }
    }

    #[test]
    fn recorded_openclaw_proof_verifies() {
        let recorded = RecordedProof::read();
        assert_eq!(verify(&recorded.proof, &recorded.context(), 4), Ok(()));
        assert_eq!(verify(&recorded.proof, &recorded.context(), 3), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let recorded = RecordedProof::read();
        let context = recorded.context();
        let text =
            context.signed_text(SignedForm::V3, &recorded.proof.id, recorded.proof.signed_at);
        let public_key = decode::<32>(&recorded.proof.public_key).unwrap();
        let signature = decode::<64>(&recorded.proof.signature).unwrap();
        let key = UnparsedPublicKey::new(&ED25519, public_key);
        assert!(key.verify(text.as_bytes(), &signature).is_ok());
        for index in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[index] ^= 1;
            assert!(key.verify(&changed, &signature).is_err(), "byte {index} of the text");
        }
        for bit in 0..signature.len() * 8 {
            let mut changed = signature;
            changed[bit / 8] ^= 1 << (bit % 8);
            let signature = URL_SAFE_NO_PAD.encode(changed);
            let proof = DeviceProof { signature, ..recorded.proof.clone() };
            assert_eq!(verify(&proof, &context, 4), Err(DeviceProofError::Signature), "bit {bit}");
        }
        for bit in 0..public_key.len() * 8 {
            let mut changed = public_key;
            changed[bit / 8] ^= 1 << (bit % 8);
            let public_key = URL_SAFE_NO_PAD.encode(changed);
            let stolen_id =
                DeviceProof { public_key: public_key.clone(), ..recorded.proof.clone() };
            assert_eq!(verify(&stolen_id, &context, 4), Err(DeviceProofError::Id), "bit {bit}");
            let own_id =
                DeviceProof { id: device_id(&changed), public_key, ..recorded.proof.clone() };
            assert_eq!(verify(&own_id, &context, 4), Err(DeviceProofError::Signature), "bit {bit}");
        }
    }

    #[track_caller]
    fn check(
        change: impl Fn(&mut DeviceProof),
        claim: impl Fn(&mut ChallengeContext<'_>),
        expected: DeviceProofError,
    ) {
        let recorded = RecordedProof::read();
        let mut proof = recorded.proof.clone();
        change(&mut proof);
        let mut context = recorded.context();
        claim(&mut context);
        for protocol in [3, 4] {
            assert_eq!(verify(&proof, &context, protocol), Err(expected));
        }
    }

    #[test]
    fn proof_for_other_claim_is_refused() {
        use DeviceProofError::*;
        let same = |_: &mut DeviceProof| {};
        check(same, |context| context.nonce = "another", Nonce);
        check(same, |context| context.nonce = "", Nonce);
        check(same, |context| context.token = "another", Signature);
        check(same, |context| context.token = "", Signature);
        check(same, |context| context.role = "node", Signature);
        check(same, |context| context.scopes = &[], Signature);
        check(same, |context| context.client_id = ClientId::Test, Signature);
        check(same, |context| context.client_mode = ClientMode::Ui, Signature);
        check(same, |context| context.platform = "macos", Signature);
        check(same, |context| context.device_family = "", Signature);
        check(same, |context| context.signed_at += SKEW_MS_MAX as i64 + 1, Time);
        let unclaimed = |_: &mut ChallengeContext<'_>| {};
        check(|proof| proof.signed_at += 1, unclaimed, Signature);
        check(|proof| proof.signed_at = i64::MIN, unclaimed, Time);
        check(|proof| proof.nonce = "another".to_owned(), unclaimed, Nonce);
        check(|proof| proof.nonce.clear(), |context| context.nonce = "", Nonce);
        check(|proof| proof.id.make_ascii_uppercase(), unclaimed, Id);
        check(|proof| proof.public_key.push('='), unclaimed, PublicKey);
        check(|proof| proof.public_key.truncate(10), unclaimed, PublicKey);
        check(|proof| proof.signature.push_str("AA"), unclaimed, Signature);
        check(|proof| proof.signature.clear(), unclaimed, Signature);
        check(|proof| proof.signature = "+/+/".to_owned(), unclaimed, Signature);
        let other = DeviceKey::generate().unwrap().0;
        check(
            move |proof| {
                let recorded = RecordedProof::read();
                proof.signature = other.prove(&recorded.context()).signature;
            },
            unclaimed,
            Signature,
        );
    }

    #[test]
    fn generated_key_proves_itself_and_survives_storage() {
        let (key, bytes) = DeviceKey::generate().unwrap();
        let stored = DeviceKey::from_pkcs8(&bytes).unwrap();
        assert_eq!(key.id(), stored.id());
        assert_eq!(key.id().len(), 64);
        assert!(DeviceKey::from_pkcs8(&bytes[1..]).is_err());
        let recorded = RecordedProof::read();
        let context = recorded.context();
        let proof = stored.prove(&context);
        assert_eq!(verify(&proof, &context, 4), Ok(()));
        assert_eq!(proof.id, key.id());
        let spelled = ChallengeContext { platform: " LINUX ", device_family: "linux", ..context };
        assert_eq!(verify(&proof, &spelled, 4), Ok(()), "case and spaces do not matter");
    }

    #[test]
    fn v2_form_is_accepted_only_by_older_protocol() {
        let (key, _) = DeviceKey::generate().unwrap();
        let recorded = RecordedProof::read();
        let context = recorded.context();
        let mut proof = key.prove(&context);
        let text = context.signed_text(SignedForm::V2, &proof.id, proof.signed_at);
        proof.signature = URL_SAFE_NO_PAD.encode(key.pair.sign(text.as_bytes()));
        assert_eq!(verify(&proof, &context, 3), Ok(()));
        assert_eq!(verify(&proof, &context, 4), Err(DeviceProofError::Signature));
    }

    #[test]
    fn ambiguous_signed_text_is_refused() {
        let (key, _) = DeviceKey::generate().unwrap();
        let recorded = RecordedProof::read();
        let context = recorded.context();
        let (both, comma) = (["a|b".to_owned()], ["a,b".to_owned()]);
        for context in [
            ChallengeContext { role: "operator|x", ..context },
            ChallengeContext { scopes: &both, ..context },
            ChallengeContext { scopes: &comma, ..context },
            ChallengeContext { platform: "linux|", ..context },
            ChallengeContext { device_family: "|linux", ..context },
        ] {
            let proof = key.prove(&context);
            assert_eq!(verify(&proof, &context, 4), Err(DeviceProofError::Signature));
        }
    }
}
