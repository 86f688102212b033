//! Which key does what while text is typed.

use zero_terminal::input_event::{KeyCode, KeyStroke};

/// An edit, a motion, or the end of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditCommand {
    /// Inserts a character.
    Insert(char),
    /// Inserts a line end.
    InsertNewline,
    /// Removes the character before the cursor.
    EraseBack,
    /// Removes the character after the cursor.
    EraseForward,
    /// The same, unless the text is empty: then the key means something else.
    EraseForwardIfAny,
    /// One character back.
    MoveLeft,
    /// One character on.
    MoveRight,
    /// One row up, or to an older prompt.
    MoveUp,
    /// One row down, or to a newer prompt.
    MoveDown,
    /// To the start of the line.
    MoveToLineStart,
    /// To the end of the line.
    MoveToLineEnd,
    /// To the start of the text.
    MoveToStart,
    /// To the end of the text.
    MoveToEnd,
    /// To the start of the word.
    MoveWordLeft,
    /// To the end of the word.
    MoveWordRight,
    /// Cuts to the start of the word.
    KillWordLeft,
    /// Cuts to the blank before the cursor.
    KillBigWordLeft,
    /// Cuts to the end of the word.
    KillWordRight,
    /// Cuts to the start of the line.
    KillToLineStart,
    /// Cuts to the end of the line.
    KillToLineEnd,
    /// Inserts what was cut last.
    Yank,
    /// Replaces what was just inserted by what was cut before it.
    YankOlder,
    /// Takes back the last change.
    Undo,
    /// Makes it again.
    Redo,
    /// Shows a folded paste.
    Unfold,
    /// Searches the history.
    SearchHistory,
    /// Ends the input.
    Submit,
    /// Ends the input and interrupts what is running.
    SubmitNow,
}

/// The command of a key; `None` if the key does nothing here.
pub(super) fn command_of(stroke: KeyStroke) -> Option<EditCommand> {
    use EditCommand::*;
    let KeyStroke { code, ctrl, alt, shift } = stroke;
    let is_word = ctrl || alt;
    Some(match code {
        KeyCode::Char(letter) => match (ctrl, alt) {
            (false, false) => Insert(letter),
            (true, false) => return control_command(letter, shift),
            (false, true) => return alt_command(letter),
            (true, true) => return None,
        },
        KeyCode::Enter if ctrl => SubmitNow,
        KeyCode::Enter if shift || alt => InsertNewline,
        KeyCode::Enter => Submit,
        KeyCode::Backspace if is_word => KillWordLeft,
        KeyCode::Backspace => EraseBack,
        KeyCode::Delete if is_word => KillWordRight,
        KeyCode::Delete => EraseForward,
        KeyCode::Left if is_word => MoveWordLeft,
        KeyCode::Left => MoveLeft,
        KeyCode::Right if is_word => MoveWordRight,
        KeyCode::Right => MoveRight,
        KeyCode::Up if !is_word => MoveUp,
        KeyCode::Down if !is_word => MoveDown,
        KeyCode::Home if ctrl => MoveToStart,
        KeyCode::Home => MoveToLineStart,
        KeyCode::End if ctrl => MoveToEnd,
        KeyCode::End => MoveToLineEnd,
        KeyCode::Up
        | KeyCode::Down
        | KeyCode::Tab
        | KeyCode::Escape
        | KeyCode::PageUp
        | KeyCode::PageDown
        | KeyCode::Function(_) => return None,
    })
}

fn control_command(letter: char, shift: bool) -> Option<EditCommand> {
    use EditCommand::*;
    Some(match letter {
        'Z' => Redo,
        'z' if shift => Redo,
        'z' | '_' | '/' => Undo,
        'a' => MoveToLineStart,
        'b' => MoveLeft,
        'd' => EraseForwardIfAny,
        'e' => MoveToLineEnd,
        'f' => MoveRight,
        'h' => EraseBack,
        'j' => InsertNewline,
        'k' => KillToLineEnd,
        'n' => MoveDown,
        'o' => Unfold,
        'p' => MoveUp,
        'r' => SearchHistory,
        'u' => KillToLineStart,
        'w' => KillBigWordLeft,
        'y' => Yank,
        _ => return None,
    })
}

fn alt_command(letter: char) -> Option<EditCommand> {
    use EditCommand::*;
    Some(match letter {
        'b' => MoveWordLeft,
        'd' => KillWordRight,
        'f' => MoveWordRight,
        'y' => YankOlder,
        '/' => Redo,
        '<' => MoveToStart,
        '>' => MoveToEnd,
        _ => return None,
    })
}
