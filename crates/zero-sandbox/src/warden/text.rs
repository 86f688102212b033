//! A command as it travels: text where it is text, bytes where it is not.
//!
//! Names, arguments and variables may hold any bytes, and nearly always hold text. Written as
//! numbers, a large environment would take four times the room and much longer.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::standin::CommandSpec;

#[derive(Serialize, Deserialize)]
enum Text {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        match text.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(text.as_bytes().to_owned()),
        }
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        match text {
            Text::Text(text) => text.into(),
            Text::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct CommandText {
    program: Text,
    args: Vec<Text>,
    folder: Text,
    environment: Vec<(Text, Text)>,
}

pub(super) fn serialize<S: Serializer>(command: &CommandSpec, to: S) -> Result<S::Ok, S::Error> {
    let CommandSpec { program, args, folder, environment } = command;
    let variable = |(name, value): &(OsString, OsString)| (text(name), text(value));
    CommandText {
        program: text(program),
        args: args.iter().map(|arg| text(arg)).collect(),
        folder: text(folder.as_os_str()),
        environment: environment.iter().map(variable).collect(),
    }
    .serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<CommandSpec, D::Error> {
    let CommandText { program, args, folder, environment } = CommandText::deserialize(from)?;
    Ok(CommandSpec {
        program: program.into(),
        args: args.into_iter().map(OsString::from).collect(),
        folder: OsString::from(folder).into(),
        environment: environment
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    })
}

fn text(text: &OsStr) -> Text {
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_arrive_as_they_are() {
        #[derive(Serialize, Deserialize)]
        struct Order(#[serde(with = "super")] CommandSpec);
        let odd = OsString::from_vec(vec![b'a', 0xff, b'"', b'\n', 0xc3]);
        let command = CommandSpec {
            program: odd.clone(),
            args: vec!["ä \"\\\u{1}".into(), odd.clone(), "".into()],
            folder: odd.clone().into(),
            environment: vec![("NAME".into(), odd.clone()), (odd, "x".into())],
        };
        let text = serde_json::to_string(&Order(command.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap().0, command);
    }
}
