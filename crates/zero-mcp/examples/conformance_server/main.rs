//! The server for the official MCP conformance suite, built on zero's own server.
//!
//! The suite tests a server with tools, resources and prompts of certain names and behaviour. They
//! exist only here; the product has none of them. `tests/interop/run` starts this with a port in
//! `PORT` (any free one if absent), reads the address from its first line of output, and runs the
//! suite against it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a fixture of the interop suite, not part of the product"
)]
#![expect(deprecated, reason = "the suite also asks for what the protocol is about to remove")]

mod client_requests;
mod multi_round_tools;
mod resources;
mod single_round_tools;
mod tool_definitions;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use zero_mcp::server::{McpHttpAccess, McpHttpConfig, serve_handler_http};

/// How long a client may cache a list.
const CACHE_TTL_MS: u64 = 60_000;
/// Maximum number of subscriptions to changes.
const LISTENERS_MAX: usize = 64;
/// Maximum number of subscribed resources.
const SUBSCRIBED_MAX: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::var("PORT").map_or(Ok(0), |port| port.parse::<u16>())?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let fixture = ConformanceServer::new()?;
    let mut config = McpHttpConfig::new(listener, "");
    config.access = McpHttpAccess::Anybody;
    Ok(serve_handler_http(config, move || fixture.clone()).await?)
}

/// The server under test. Clones share their state.
#[derive(Clone)]
struct ConformanceServer {
    seal: RequestStateCodec,
    listeners: Arc<Mutex<BTreeMap<u64, SubscriptionSink>>>,
    subscribed: Arc<Mutex<BTreeSet<String>>>,
}

impl ConformanceServer {
    fn new() -> Result<Self, Box<dyn Error>> {
        let key: Vec<u8> =
            (0..RequestStateCodec::MIN_KEY_LENGTH).map(|_| fastrand::u8(..)).collect();
        Ok(Self {
            seal: RequestStateCodec::try_new(key)?,
            listeners: Arc::default(),
            subscribed: Arc::default(),
        })
    }

    /// Returns all current subscribers.
    fn listeners(&self) -> Vec<SubscriptionSink> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl ServerHandler for ConformanceServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("zero-conformance", env!("CARGO_PKG_VERSION")))
            .with_instructions("What the conformance suite wants to find.")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tool_definitions::list_tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(tool_definitions::list_tools());
        Ok(list.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name.starts_with(multi_round_tools::PREFIX) {
            return multi_round_tools::call(&self.seal, &request, &cx.meta);
        }
        single_round_tools::call(self, request, cx).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = ListResourcesResult::with_all_items(resources::list_resources());
        Ok(list.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = ListResourceTemplatesResult::with_all_items(resources::list_templates());
        Ok(list.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = resources::read_resource(&request.uri)?;
        Ok(contents.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(resources::list_prompts());
        Ok(list.with_ttl_ms(CACHE_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        resources::get_prompt(&request)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        resources::complete(&request)
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::read_resource(&request.uri)?;
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if subscribed.len() >= SUBSCRIBED_MAX {
            return Err(ErrorData::internal_error("too many subscriptions", None));
        }
        subscribed.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let id = fastrand::u64(..);
        {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            if listeners.len() >= LISTENERS_MAX {
                return Err(ErrorData::internal_error("too many listeners", None));
            }
            listeners.insert(id, subscription.sink().clone());
        }
        subscription.cancelled().await;
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(())
    }
}
