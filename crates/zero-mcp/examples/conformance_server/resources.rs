//! The resources, the prompts, and the completion of their arguments.

use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, ImageContent, InputRequests, InputRequiredResult, Prompt,
    PromptArgument, PromptMessage, ReadResourceResult, Reference, Resource, ResourceContents,
    ResourceTemplate, Role,
};
use serde_json::{Value, json};

use crate::multi_round_tools;

/// A PNG of one red pixel.
pub(crate) const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// An empty WAV.
pub(crate) const WAV_BASE64: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// All resources, in the order they are listed in.
pub(crate) fn list_resources() -> Vec<Resource> {
    [
        ("test://static-text", "A text", "text/plain"),
        ("test://static-binary", "An image", "image/png"),
        ("test://watched-resource", "A text to subscribe to", "text/plain"),
    ]
    .into_iter()
    .map(|(uri, name, kind)| Resource::new(uri, name).with_mime_type(kind))
    .collect()
}

/// All templates of resources.
pub(crate) fn list_templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "Data of an id")
            .with_mime_type("application/json"),
    ]
}

/// Reads a resource.
pub(crate) fn read_resource(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        "test://static-text" => {
            text_contents(uri, "text/plain", "The content of the static text resource.")
        }
        "test://watched-resource" => {
            text_contents(uri, "text/plain", "The content of the watched resource.")
        }
        "test://static-binary" => ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: Some("image/png".to_owned()),
            blob: PNG_BASE64.to_owned(),
            meta: None,
        },
        _ => {
            match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
                Some(id) if !id.is_empty() && !id.contains('/') => {
                    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                    text_contents(uri, "application/json", &data.to_string())
                }
                _ => {
                    return Err(ErrorData::resource_not_found(
                        format!("no resource `{uri}`"),
                        Some(json!({ "uri": uri })),
                    ));
                }
            }
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A resource that is a text.
pub(crate) fn text_contents(uri: &str, kind: &str, text: &str) -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(kind.to_owned()),
        text: text.to_owned(),
        meta: None,
    }
}

/// All prompts, in the order they are listed in.
pub(crate) fn list_prompts() -> Vec<Prompt> {
    let argument = |name: &str, required| PromptArgument::new(name).with_required(required);
    vec![
        Prompt::new("test_simple_prompt", Some("A text"), None),
        Prompt::new(
            "test_prompt_with_arguments",
            Some("A text with its arguments"),
            Some(vec![argument("arg1", true), argument("arg2", false)]),
        ),
        Prompt::new(
            "test_prompt_with_embedded_resource",
            Some("A text and a resource"),
            Some(vec![argument("resourceUri", true)]),
        ),
        Prompt::new("test_prompt_with_image", Some("A text and an image"), None),
        Prompt::new("test_input_required_result_prompt", Some("Needs an answer first"), None),
    ]
}

/// Builds a prompt.
pub(crate) fn get_prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    let says = |text: String| PromptMessage::new_text(Role::User, text);
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![says("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => vec![says(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => {
            let contents =
                text_contents(argument("resourceUri"), "text/plain", "Embedded resource content.");
            vec![
                PromptMessage::new(Role::User, ContentBlock::resource(contents)),
                says("Please process the embedded resource above.".to_owned()),
            ]
        }
        "test_prompt_with_image" => vec![
            PromptMessage::new(
                Role::User,
                ContentBlock::Image(ImageContent::new(PNG_BASE64, "image/png")),
            ),
            says("Please analyze the image above.".to_owned()),
        ],
        "test_input_required_result_prompt" => {
            match multi_round_tools::accepted_content(
                request.input_responses.as_ref(),
                "user_context",
            ) {
                Some(given) => {
                    vec![says(format!("The context is: {}", Value::Object(given.clone())))]
                }
                None => {
                    let wanted = InputRequests::from([(
                        "user_context".to_owned(),
                        multi_round_tools::elicitation_request(
                            "What is this about?",
                            "context",
                            "string",
                        )?,
                    )]);
                    return Ok(InputRequiredResult::from_input_requests(wanted).into());
                }
            }
        }
        unknown => {
            return Err(ErrorData::invalid_params(format!("unknown prompt `{unknown}`"), None));
        }
    };
    Ok(GetPromptResult::new(messages).into())
}

/// Completes an argument of a prompt.
pub(crate) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let known = match &request.r#ref {
        Reference::Prompt(prompt) if prompt.name == "test_prompt_with_arguments" => {
            ["test", "testing", "other"].as_slice()
        }
        Reference::Resource(_) => ["1", "2", "3"].as_slice(),
        _ => [].as_slice(),
    };
    let begun = request.argument.value.as_str();
    let values = known.iter().filter(|value| value.starts_with(begun)).map(|&v| v.to_owned());
    let values = CompletionInfo::new(values.collect())
        .map_err(|error| ErrorData::internal_error(error, None))?;
    Ok(CompleteResult::new(values))
}
