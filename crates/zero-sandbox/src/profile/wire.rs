//! Serialises paths and arguments to JSON without loss: as text if they are UTF-8, as a list of
//! bytes otherwise.
//!
//! Serde refuses a path that is not UTF-8, but a user's folder may have such a name.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// A name in its serialised form.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PortableText<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> PortableText<'a> {
    fn new(name: &'a OsStr) -> Self {
        match name.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Bytes(name.as_bytes().into()),
        }
    }

    fn into_name(self) -> OsString {
        match self {
            Self::Text(text) => text.into_owned().into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.into_owned()),
        }
    }
}

/// One argument.
pub(crate) mod text {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(text: &OsStr, to: S) -> Result<S::Ok, S::Error> {
        PortableText::new(text).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OsString, D::Error> {
        Ok(PortableText::deserialize(from)?.into_name())
    }
}

/// A list of arguments.
pub(crate) mod texts {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(texts: &[OsString], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(texts.iter().map(|text| PortableText::new(text)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<PortableText<'_>>::deserialize(from)?
            .into_iter()
            .map(PortableText::into_name)
            .collect())
    }
}

/// Encodes one path for serde; bytes where it is not UTF-8.
pub(crate) mod path {
    use super::*;
    use serde::{Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        PortableText::new(path.as_os_str()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(PortableText::deserialize(from)?.into_name().into())
    }
}

/// A list of paths.
pub(crate) mod paths {
    use super::*;
    use serde::{Deserializer, Serializer};
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| PortableText::new(path.as_os_str())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let wires = Vec::<PortableText<'_>>::deserialize(from)?;
        Ok(wires.into_iter().map(|wire| wire.into_name().into()).collect())
    }
}

/// An environment: names with values.
pub(crate) mod pairs {
    use super::*;
    use serde::{Deserializer, Serializer};

    type EnvironmentPair = (OsString, OsString);

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[EnvironmentPair],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            pairs.iter().map(|(name, value)| (PortableText::new(name), PortableText::new(value))),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<EnvironmentPair>, D::Error> {
        let pairs = Vec::<(PortableText<'_>, PortableText<'_>)>::deserialize(from)?;
        Ok(pairs.into_iter().map(|(name, value)| (name.into_name(), value.into_name())).collect())
    }
}
